"""The distribution that installs this library: its name and version."""

from __future__ import annotations

from functools import cache

NAME = "lakehouse-lib"


@cache
def version() -> str | None:
    """The installed version; None where the library is not installed, as on a worker that got it by --py-files."""
    from importlib import metadata  # 50 ms that readers need not wait for

    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return None
