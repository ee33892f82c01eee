"""The error of a data file that is not there."""

from __future__ import annotations

from lakehouse_lib.errors import ObjectNotFoundError


def missing_file(path: str, *, table: str, version: int | None = None) -> ObjectNotFoundError:
    """What reading a data file raises that the log refers to and that is not there."""
    return ObjectNotFoundError(
        f"the data file {path} is missing although the log refers to it",
        table=table,
        version=version,
        hint="A vacuum with too short a retention or another program deleted it; read the newest version, or restore "
        "the file",
    )
