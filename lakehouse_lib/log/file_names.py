"""Names of objects in ``_delta_log`` (PROTOCOL.md, section Delta Log Entries and Checkpoints)."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Literal

LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"
SIDECARS = f"{LOG}/_sidecars"
#: The greatest version: versions are signed 64-bit numbers, although the twenty digits of a name can be greater.
LAST = 2**63 - 1

_NAME = re.compile(
    r"(?P<version>\d{20})"
    r"(?:"
    r"(?P<commit>\.json)"
    r"|(?P<classic>\.checkpoint\.parquet)"
    r"|\.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|\.checkpoint\.[0-9A-Fa-f-]{36}\.(?P<uuid>json|parquet)"
    r"|\.(?P<end>\d{20})\.compacted\.json"
    r")",
    re.ASCII,  # \d would match digits of other scripts
)

_CHECKSUM = re.compile(r"(\d{20})\.crc", re.ASCII)

Kind = Literal["commit", "classic", "part", "uuid-json", "uuid-parquet", "compacted"]


@dataclass(frozen=True)
class LogName:
    """A parsed name.

    Attributes:
        version: the version; of a log compaction, the first version that it covers.
        part, parts: the number of the part, from 1, and the number of all parts of a multi-part checkpoint; else 0.
        end: the last version that a log compaction covers; else 0.
    """

    version: int
    kind: Kind
    part: int = 0
    parts: int = 0
    end: int = 0


def commit(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def checkpoint(version: int) -> str:
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def checkpoint_v2(version: int, unique: uuid.UUID) -> str:
    return f"{LOG}/{version:020d}.checkpoint.{unique}.parquet"


def compaction(start: int, end: int) -> str:
    return f"{LOG}/{start:020d}.{end:020d}.compacted.json"


def checksum(version: int) -> str:
    return f"{LOG}/{version:020d}.crc"


def checksum_version(path: str) -> int | None:
    """The version of the checksum file with this path; None if it is not the path of a checksum file."""
    match = _CHECKSUM.fullmatch(path.rsplit("/", 1)[-1])
    return int(match[1]) if match is not None and int(match[1]) <= LAST else None


def first_name(version: int) -> str:
    """A text that sorts before every name of this version and after every name of the previous version."""
    return f"{version:020d}"


def parse(path: str) -> LogName | None:
    """The parsed name of a path in the log folder, or None for other files (checksums, temporary files)."""
    match = _NAME.fullmatch(path.rsplit("/", 1)[-1])
    if match is None:
        return None
    version = int(match["version"])
    if max(version, int(match["end"] or 0)) > LAST:
        return None
    if match["commit"]:
        return LogName(version, "commit")
    if match["classic"]:
        return LogName(version, "classic")
    if match["parts"]:
        return LogName(version, "part", int(match["part"]), int(match["parts"]))
    if match["end"]:
        return LogName(version, "compacted", end=int(match["end"]))
    return LogName(version, "uuid-json" if match["uuid"] == "json" else "uuid-parquet")
