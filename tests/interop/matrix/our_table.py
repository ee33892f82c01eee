"""A table that this library writes for the matrix of docs/interop.md, with the rows that each version must have.

``feature_tables`` and ``verb_tables`` have a function for each line of the matrix. To add a line, add a function there,
then run ``make interop RECORD=1`` and ``make docs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine

#: The columns of most tables; all others have at least ``id``.
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("amount", pa.float64())])
PARTS = ("a", "b c", None)


@dataclass
class OurTable:
    """A table under construction.

    Attributes:
        root: its folder, which does not exist yet.
        engine: the engine of its verbs; None: Arrow.
        storage_options: the options with which this library opens it.
        versions: the rows of each version.
    """

    root: Path
    engine: Engine | None = None
    storage_options: dict[str, str] | None = None
    versions: dict[int, pa.Table] = field(default_factory=dict)

    def open(self, version: int | None = None) -> DeltaTable:
        return DeltaTable(self.root, version, self.storage_options, engine=self.engine)

    def write(self, data: pa.Table, expected: pa.Table, **options: Any) -> None:
        """Write ``data``; the new version has the rows ``expected``."""
        write_deltalake(self.root, data, storage_options=self.storage_options, engine=self.engine, **options)
        self.has(expected)

    def has(self, expected: pa.Table) -> None:
        """Note the rows of the latest version, which is the only one that is not noted yet."""
        latest = self.open().version()
        assert latest == len(self.versions), f"version {latest} comes after {len(self.versions)} noted versions"
        self.versions[latest] = expected


Writer = Callable[[OurTable], None]


def line(lines: dict[str, Writer], title: str) -> Callable[[Writer], Writer]:
    """Register a function that writes a table, as the line ``title`` of the matrix."""

    def register(write: Writer) -> Writer:
        assert title not in lines, title
        lines[title] = write
        return write

    return register


def rows(ids: Sequence[int], amount: Mapping[int, float | None] | None = None, **columns: pa.Array) -> pa.Table:
    """Rows whose ids determine the other values.

    Args:
        amount: other amounts, by id.
        columns: further columns.
    """
    amounts = {key: key / 2 for key in ids} | {key: value for key, value in (amount or {}).items() if key in ids}
    values = [pa.array(ids, pa.int64()), pa.array([part(key) for key in ids], pa.string())]
    base = pa.table([*values, pa.array([amounts[key] for key in ids], pa.float64())], schema=SCHEMA)
    for name, values_of_column in columns.items():
        base = base.append_column(name, values_of_column)
    return base


def part(key: int) -> str | None:
    """The value of ``part`` in the row with this id."""
    return PARTS[key % len(PARTS)]
