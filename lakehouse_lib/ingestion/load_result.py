"""What a run over a source has loaded, and what it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_lib.errors import IngestError, SourceChangedError, SourceRefusedError
from lakehouse_lib.operations.results import OperationResult


@dataclass(frozen=True)
class LoadResult(OperationResult):
    """What a run has done.

    Attributes:
        version: of the last batch that was committed.
        batches: an entry a batch: its number, files, rows, broken rules and version.
        waiting: files that are still growing, or have not settled.
        refused: files that do not fit -> why.
        changed: files that were loaded, and have other content now -> the batch they were in.
        quarantine: the location of the table of rejected rows, and ``quarantine_version`` its version; None: no table.
    """

    batches: tuple[Mapping[str, Any], ...]
    waiting: tuple[str, ...]
    refused: Mapping[str, str]
    changed: Mapping[str, int]
    quarantine: str
    quarantine_version: int | None

    def to_dict(self) -> dict[str, Any]:
        """Every field as values that ``json.dumps`` takes, and the sums over the batches."""
        return {
            "table": self.table,
            "read_version": self.read_version,
            "version": self.version,
            "batches": [dict(batch) for batch in self.batches],
            "files_loaded": sum(len(batch["files"]) for batch in self.batches),
            "rows_loaded": sum(batch["rows_loaded"] for batch in self.batches),
            "rows_quarantined": sum(batch["rows_quarantined"] for batch in self.batches),
            "files_waiting": list(self.waiting),
            "files_refused": [{"file": name, "error": error} for name, error in sorted(self.refused.items())],
            "files_changed": [{"file": name, "batch": batch} for name, batch in sorted(self.changed.items())],
            "quarantine": self.quarantine,
            "quarantine_version": self.quarantine_version,
        }

    def error(self, *, refusals_fail: bool) -> IngestError | None:
        """What the run has to fail with after all that could be loaded is loaded."""
        problems = [
            f"{name} was loaded in batch {batch} and has other content now" for name, batch in self.changed.items()
        ]
        if refusals_fail:
            problems += self.refused.values()
        if not problems:
            return None
        if not self.changed:
            return SourceRefusedError(" | ".join(problems))
        hint = "Land changed content under a new name, or put the loaded file back"
        kind = IngestError if refusals_fail and self.refused else SourceChangedError
        return kind(" | ".join(problems), hint=hint)
