"""The libraries that run the verbs of a sequence: this library and delta-rs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import deltalake
import pyarrow as pa

import lakehouse_lib
from lakehouse_lib.engine.base import Engine
from tests.differential.feeds import FEED
from tests.differential.verbs import Verb
from tests.peers import collected, plain, read_delta_rs


@dataclass
class SequenceTable:
    """A table of a sequence.

    Attributes:
        states: the versions after the verbs, which can be restored.
        opened: the table after the last verb, as this library opens it.
        rows: the rows after the last verb, plain and sorted.
        rows_before: the rows before the last verb.
    """

    root: Path
    states: list[int] = field(default_factory=list)
    opened: lakehouse_lib.DeltaTable = field(init=False)
    rows: pa.Table = field(init=False, default_factory=lambda: pa.table({}))
    rows_before: pa.Table = field(init=False, default_factory=lambda: pa.table({}))

    def read(self, library: ThisLibrary) -> None:
        """Open the table after a verb, and read its rows."""
        self.opened = library.open(self.root)
        self.rows, self.rows_before = plain(self.opened.to_pyarrow_table()), self.rows


class Program(Protocol):
    """A library that writes and reads tables."""

    name: str

    def create(
        self, root: Path, rows: pa.Table, partition_by: list[str] | None, properties: dict[str, str]
    ) -> None: ...

    def run(self, verb: Verb, table: SequenceTable) -> None: ...

    def read(self, table: SequenceTable) -> pa.Table:
        """The rows, plain and sorted."""

    def changes(self, table: SequenceTable, start: int) -> pa.Table:
        """The change data feed from a version on."""


class ThisLibrary:
    """This library, on one of its engines."""

    name = "this library"

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine

    @property
    def engine_name(self) -> str:
        return "arrow" if self._engine is None else self._engine.name

    def create(self, root: Path, rows: pa.Table, partition_by: list[str] | None, properties: dict[str, str]) -> None:
        options: dict[str, Any] = {"partition_by": partition_by, "configuration": properties, "engine": self._engine}
        lakehouse_lib.write_deltalake(root, rows, **options)

    def run(self, verb: Verb, table: SequenceTable) -> None:
        _run(lakehouse_lib, self.open(table.root), verb, table, {"engine": self._engine})

    def open(self, root: Path) -> lakehouse_lib.DeltaTable:
        return lakehouse_lib.DeltaTable(root, engine=self._engine)

    def read(self, table: SequenceTable) -> pa.Table:
        return table.rows

    def changes(self, table: SequenceTable, start: int) -> pa.Table:
        return collected(table.opened.load_cdf(start))


class DeltaRs:
    """The package ``deltalake``. It writes tables without features, except the change data feed."""

    name = "delta-rs"

    def create(self, root: Path, rows: pa.Table, partition_by: list[str] | None, properties: dict[str, str]) -> None:
        configuration = FEED if properties.items() >= FEED.items() else None
        deltalake.write_deltalake(root, rows, partition_by=partition_by, configuration=configuration)

    def run(self, verb: Verb, table: SequenceTable) -> None:
        _run(deltalake, deltalake.DeltaTable(table.root), verb, table, {})

    def read(self, table: SequenceTable) -> pa.Table:
        return read_delta_rs(table.root)

    def changes(self, table: SequenceTable, start: int) -> pa.Table:
        return pa.table(deltalake.DeltaTable(table.root).load_cdf(starting_version=start))


def _run(package: Any, opened: Any, verb: Verb, table: SequenceTable, options: dict[str, Any]) -> None:
    """Run a verb by the calls that this library and ``deltalake`` both have."""
    if verb.name in ("append", "overwrite"):
        package.write_deltalake(table.root, verb.data, mode=verb.name, **options)
    elif verb.name == "wider append":
        package.write_deltalake(table.root, verb.data, mode="append", schema_mode="merge", **options)
    elif verb.name == "replace":
        package.write_deltalake(table.root, verb.data, mode="overwrite", predicate=verb.condition, **options)
    elif verb.name == "delete":
        opened.delete(verb.condition)
    elif verb.name == "update":
        opened.update(dict(verb.values), predicate=verb.condition)
    elif verb.name == "merge":
        aliases = {"source_alias": "source", "target_alias": "target"}
        merger = opened.merge(verb.data, verb.condition, merge_schema=verb.merge_schema, **aliases)
        for method, arguments in verb.clauses:
            merger = getattr(merger, method)(**arguments)
        merger.execute()
    elif verb.name == "compact":
        opened.optimize.compact()
    elif verb.name == "z_order":
        opened.optimize.z_order(["id"])
    elif verb.name == "checkpoint":
        opened.create_checkpoint()
    elif verb.name == "restore":
        opened.restore(opened.version() if verb.state is None else table.states[verb.state])
    else:
        assert verb.name == "vacuum", verb.name
        opened.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
