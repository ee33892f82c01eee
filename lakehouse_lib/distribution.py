"""The name and version of the package that installs this library; pyproject.toml takes the version from here."""

from __future__ import annotations

NAME = "lakehouse-lib"
#: A constant, because looking up the installed package takes 25 ms in each process.
VERSION = "0.1.0"
