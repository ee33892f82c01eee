"""The contestants: this library with fsync (its default) and without (as delta-rs), and delta-rs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

#: This library without fsync, with fsync, and delta-rs.
NAMES = ("ours", "ours-synced", "delta-rs")


class Committer(Protocol):
    """A contestant; its constructor imports the library."""

    def append(self, table: str, rows: Any) -> None:
        """Open a table and append to it."""

    def open(self, table: str) -> Any:
        """An open table."""

    def append_to(self, opened: Any, rows: Any) -> None:
        """Append to an open table."""

    def behind(self, table: str, others: Callable[[], None]) -> Behind:
        """Verbs that commit after commits of other writers."""


class Behind(Protocol):
    """Verbs that commit after other writers' commits; each returns its seconds, without the time of those commits."""

    def append(self, rows: Any) -> float: ...

    def delete(self, condition: str) -> float: ...


def committer(name: str) -> Committer:
    """The contestant of that name."""
    return DeltaRs() if name == "delta-rs" else LibraryCommitter(synced=name == "ours-synced")


class LibraryCommitter:
    def __init__(self, *, synced: bool) -> None:
        # Else the first append would import these.
        import lakehouse_lib.store
        from lakehouse_lib.engine.arrow.engine import ArrowEngine
        from lakehouse_lib.engine.incoming import incoming
        from lakehouse_lib.operations.write import write
        from lakehouse_lib.table.write import write_deltalake

        self.synced = synced
        self._engine = ArrowEngine
        self._incoming = incoming
        self._module = lakehouse_lib
        self._append = write
        self._write_deltalake = write_deltalake

    def store(self, table: str) -> Any:
        if "://" in table:
            return self._module.store.open_store(table)
        return self._module.store.LocalStore(table, fsync=self.synced)

    def append(self, table: str, rows: Any) -> None:
        self._write(self.store(table), rows)

    def open(self, table: str) -> Any:
        from lakehouse_lib.snapshot import load_snapshot
        from lakehouse_lib.table.reading import ReadableTable

        # As DeltaTable(table), with this store.
        opened = object.__new__(self._module.DeltaTable)
        store = self.store(table)
        ReadableTable.__init__(opened, store, load_snapshot(store), self._engine())
        return opened

    def append_to(self, opened: Any, rows: Any) -> None:
        self._write_deltalake(opened, rows, mode="append")

    def behind(self, table: str, others: Callable[[], None]) -> Behind:
        return LibraryCommitterBehind(self, table, others)

    def _write(self, store: Any, rows: Any) -> None:
        verb = self._append
        verb.write(store, self._incoming(rows), verb.Write(mode="append"), self._engine())


class LibraryCommitterBehind:
    """Verbs of this library; the store writes the other commits in the call that puts the verb's commit."""

    def __init__(self, committer: LibraryCommitter, table: str, others: Callable[[], None]) -> None:
        self._committer = committer
        self._table = table
        self._others = others
        self.spent = 0.0

    def append(self, rows: Any) -> float:
        return self._timed(lambda store: self._committer._write(store, rows))

    def delete(self, condition: str) -> float:
        from lakehouse_lib.expressions import parse
        from lakehouse_lib.operations.dml.delete import delete
        from lakehouse_lib.snapshot import load_snapshot

        def work(store: Any) -> None:
            snapshot = load_snapshot(store)
            delete(snapshot, parse(condition, snapshot.schema, table=store.root), self._committer._engine())

        return self._timed(work)

    def _timed(self, work: Callable[[Any], None]) -> float:
        store = self._committer.store(self._table)
        first = store.put_if_absent

        def late(path: str, data: bytes) -> bool:
            store.put_if_absent = first
            start = time.perf_counter()
            self._others()
            self.spent = time.perf_counter() - start
            won: bool = first(path, data)
            return won

        store.put_if_absent = late
        start = time.perf_counter()
        work(store)
        return time.perf_counter() - start - self.spent


class DeltaRs:
    def __init__(self) -> None:
        import deltalake

        self._deltalake = deltalake

    def append(self, table: str, rows: Any) -> None:
        self._deltalake.write_deltalake(table, rows, mode="append")

    def open(self, table: str) -> Any:
        return self._deltalake.DeltaTable(table)

    def append_to(self, opened: Any, rows: Any) -> None:
        self._deltalake.write_deltalake(opened, rows, mode="append")

    def behind(self, table: str, others: Callable[[], None]) -> Behind:
        return DeltaRsBehind(self, table, others)


class DeltaRsBehind:
    """Verbs of delta-rs on a table that was opened before the other commits; the time to open it counts."""

    def __init__(self, delta_rs: DeltaRs, table: str, others: Callable[[], None]) -> None:
        self._delta_rs = delta_rs
        self._table = table
        self._others = others

    def append(self, rows: Any) -> float:
        return self._timed(lambda opened: self._delta_rs.append_to(opened, rows))

    def delete(self, condition: str) -> float:
        return self._timed(lambda opened: opened.delete(condition))

    def _timed(self, work: Callable[[Any], None]) -> float:
        start = time.perf_counter()
        opened = self._delta_rs.open(self._table)
        seconds = time.perf_counter() - start
        self._others()
        start = time.perf_counter()
        work(opened)
        return seconds + time.perf_counter() - start


def log_version(table: Path) -> int:
    """The latest version, from the names of the log's files."""
    return max(int(path.stem) for path in (table / "_delta_log").glob("*.json") if path.stem.isdigit())
