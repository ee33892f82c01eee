"""Files of a local landing folder, as the readers of source files and the load get them."""

from __future__ import annotations

from pathlib import Path

from lakehouse_lib.ingestion.landing import Fingerprint, LandedFile, Landing, SourceFile, open_landing


def listed(landing: Landing | Path, after: str = "") -> dict[str, SourceFile]:
    """The files of a landing folder by name, in the order of the listing."""
    tables = (open_landing(landing) if isinstance(landing, Path) else landing).files(after)
    return {row["name"]: SourceFile(**row) for table in tables for row in table.to_pylist()}


def fingerprint(landing: Path, name: str) -> Fingerprint:
    """The fingerprint of a file as it is now."""
    taken = open_landing(landing).fingerprint(listed(landing)[name])
    assert taken is not None
    return taken


def landed(path: Path) -> LandedFile:
    """A file as a reader gets it."""
    status = path.lstat()
    file = Fingerprint(path.name, status.st_size, status.st_mtime_ns // 1_000_000, "")
    return LandedFile(open_landing(path.parent), file)
