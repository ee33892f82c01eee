"""The result of a run over a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lakehouse_lib.errors import IngestError, SourceChangedError, SourceRefusedError
from lakehouse_lib.operations.results import OperationResult


@dataclass(frozen=True)
class LoadResult(OperationResult):
    """The batches that a run has loaded, and the files that it has not loaded.

    Attributes:
        version: the version of the last committed batch; None: no batch was committed.
        batches: an entry for each batch: its number, files, rows, broken rules and version.
        waiting: files that may still be growing.
        refused: by name, the reason why this run has refused a file.
        earlier_refusals: by name, the reason of an earlier run for a file that still waits in the landing folder.
        changed: by name, the batch that has loaded a file whose content has changed since.
        quarantine, quarantine_version: the quarantine's location, and its version (None: it does not exist).
    """

    batches: tuple[Mapping[str, Any], ...]
    waiting: tuple[str, ...]
    refused: Mapping[str, str]
    earlier_refusals: Mapping[str, str]
    changed: Mapping[str, int]
    quarantine: str
    quarantine_version: int | None

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values for JSON, and the sums over the batches."""
        return {
            "table": self.table,
            "read_version": self.read_version,
            "version": self.version,
            "batches": [dict(batch) for batch in self.batches],
            "files_loaded": sum(len(batch["files"]) for batch in self.batches),
            "rows_loaded": sum(batch["rows_loaded"] for batch in self.batches),
            "rows_quarantined": sum(batch["rows_quarantined"] for batch in self.batches),
            "files_waiting": list(self.waiting),
            "files_refused": _errors(self.refused),
            "files_refused_earlier": _errors(self.earlier_refusals),
            "files_changed": [{"file": name, "batch": batch} for name, batch in sorted(self.changed.items())],
            "quarantine": self.quarantine,
            "quarantine_version": self.quarantine_version,
        }

    def error(self, refused: Literal["once", "fail", "report"]) -> IngestError | None:
        """The error to raise after all possible batches are loaded; None if the run succeeded.

        A changed file always fails the run.

        Args:
            refused: which refused files fail the run. ``once``: those that this run has refused; ``fail``: also those
                of earlier runs; ``report``: none.
        """
        problems = [
            f"{name} was loaded in batch {batch} and has other content now" for name, batch in self.changed.items()
        ]
        refusals = {**(self.earlier_refusals if refused == "fail" else {}), **self.refused}
        if refused != "report":
            problems += refusals.values()
        if not problems:
            return None
        if not self.changed:
            return SourceRefusedError(" | ".join(problems))
        hint = "Land changed content under a new name, or restore the loaded file"
        kind = IngestError if len(problems) > len(self.changed) else SourceChangedError
        return kind(" | ".join(problems), hint=hint)


def _errors(refusals: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"file": name, "error": error} for name, error in sorted(refusals.items())]
