"""The name and version of the package that installs this library."""

from __future__ import annotations

from functools import cache

NAME = "lakehouse-lib"


@cache
def version() -> str | None:
    """The installed version; None if the library is not installed, as on a worker that received it by --py-files."""
    from importlib import metadata  # takes 50 ms, which readers do not need

    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return None
