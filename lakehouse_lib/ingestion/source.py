"""A source: what is loaded, into what, and what its batches are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Schema


@dataclass(frozen=True)
class Source:
    """One source of one table.

    Attributes:
        suite: the quality suite's JSON; None: no gate.
        partition_by: of a table that has to be created.
        settle_seconds: a file modified less than this ago is still growing.
        target_file_size: bytes; None: ``delta.targetFileSize`` of the table, else 100 MiB.
        storage_options: by location; secrets may be among them, so no text of this shows them.
    """

    table: str
    landing: Path
    name: str
    format: SourceFormat
    schema: Schema
    suite: Any
    quarantine: str
    partition_by: tuple[str, ...] = ()
    files_per_batch: int = 1
    settle_seconds: float = 0
    target_file_size: int | None = None
    storage_options: Mapping[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def rules(self) -> dict[str, Any]:
        """What a batch is judged by, as its intent keeps it."""
        return {
            "format": self.format.to_json(),
            "schema": self.schema.json(),
            "suite": self.suite,
            "partition_by": list(self.partition_by),
        }
