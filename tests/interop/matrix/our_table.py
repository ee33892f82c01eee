"""A table that this library writes for the matrix of docs/interop.md, with the rows that each version must have.

``feature_tables``, ``column_tables`` and ``verb_tables`` have a function for each line of the matrix. To add a line,
add a function there, then run ``make interop RECORD=1`` and ``make docs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.features import has_change_data_feed
from tests.peers import collected

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

    def append(self, data: pa.Table) -> None:
        """Append rows, and note no version."""
        write_deltalake(self.root, data, mode="append", storage_options=self.storage_options, engine=self.engine)

    def has(self, expected: pa.Table, *, commits: int = 1) -> None:
        """Note the rows of the latest versions, which are the only ones that are not noted yet."""
        latest, noted = self.open().version(), len(self.versions)
        assert latest == noted + commits - 1, f"version {latest} comes after {noted} noted versions"
        self.versions |= dict.fromkeys(range(noted, latest + 1), expected)

    def changes(self) -> pa.Table | None:
        """The whole change data feed; None: the table has none."""
        if not has_change_data_feed(self.open().snapshot.metadata):
            return None
        return collected(self.open().load_cdf())


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
