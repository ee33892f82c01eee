"""Names in ``_delta_log`` (PROTOCOL.md, section Delta Log Entries and Checkpoints)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"

_NAME = re.compile(
    r"(?P<version>\d{20})"
    r"(?:"
    r"(?P<commit>\.json)"
    r"|(?P<classic>\.checkpoint\.parquet)"
    r"|\.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|(?P<uuid>\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet))"
    r")"
)

Kind = Literal["commit", "classic", "part", "uuid"]


@dataclass(frozen=True)
class LogName:
    """A parsed name; ``part``/``parts`` are 1-based and only set for a multi-part checkpoint."""

    version: int
    kind: Kind
    part: int = 0
    parts: int = 0


def commit(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def checkpoint(version: int) -> str:
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def first_name(version: int) -> str:
    """Sorts before every name of this version and after every name of the one before."""
    return f"{version:020d}"


def parse(path: str) -> LogName | None:
    """What a path in the log folder is, or None for anything else (checksums, compactions, temporary files)."""
    match = _NAME.fullmatch(path.rsplit("/", 1)[-1])
    if match is None:
        return None
    version = int(match["version"])
    if match["commit"]:
        return LogName(version, "commit")
    if match["classic"]:
        return LogName(version, "classic")
    if match["parts"]:
        return LogName(version, "part", int(match["part"]), int(match["parts"]))
    return LogName(version, "uuid")
