"""The error for a data file that is missing."""

from __future__ import annotations

from lakehouse_lib.errors import ObjectNotFoundError


def missing_file(path: str, *, table: str, version: int | None = None) -> ObjectNotFoundError:
    """The error for a data file that the log refers to and the store does not have."""
    return ObjectNotFoundError(
        f"the data file {path} is missing although the log refers to it",
        table=table,
        version=version,
        hint="A vacuum with too short a retention or another program deleted it; read the newest version, or restore "
        "the file",
        code="DELTA_DATA_FILE_MISSING",
    )
