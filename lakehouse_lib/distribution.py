"""The name and version of the package that installs this library; pyproject.toml takes the version from here."""

from __future__ import annotations

NAME = "lakehouse-lib"
#: A constant, because to look for the installed package takes a process 25 ms.
VERSION = "0.1.0"
