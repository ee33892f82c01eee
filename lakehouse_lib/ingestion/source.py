"""A source: its landing folder, its table, and the rules of its batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Schema


@dataclass(frozen=True)
class Source:
    """A source of a table.

    Attributes:
        suite: the quality suite's JSON; None: no gate.
        partition_by: partition columns of a new table.
        settle_seconds: a file modified less than this many seconds ago may still be growing.
        target_file_size: bytes; None: ``delta.targetFileSize`` of the table, else 100 MiB.
        storage_options: options by location, which may hold secrets; ``repr`` leaves them out.
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
        """The rules of a batch, as its intent stores them."""
        return {
            "format": self.format.to_json(),
            "schema": self.schema.json(),
            "suite": self.suite,
            "partition_by": list(self.partition_by),
        }
