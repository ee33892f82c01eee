"""Measure a table: version, rows, files, and the number of files that a selective query reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lakehouse_lib import DeltaTable


@dataclass(frozen=True)
class TableState:
    """A table at its latest version; sizes in bytes. `files_read`: by predicate, files that may have a match."""

    table: str
    version: int
    rows: int
    files: int
    size: int
    files_read: dict[str, int]

    @property
    def mean_size(self) -> float:
        return self.size / self.files if self.files else 0.0


def measure(path: Path, predicates: list[str]) -> TableState:
    """The state of the table at `path`, from its log only."""
    table = DeltaTable(str(path))
    files = table.files()
    return TableState(
        path.name,
        table.version(),
        rows=table.count(),
        files=files.num_rows,
        size=sum(files.column("size").to_pylist()),
        files_read={predicate: table.files(predicate).num_rows for predicate in predicates},
    )
