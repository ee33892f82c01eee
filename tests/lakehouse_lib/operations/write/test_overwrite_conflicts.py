"""Partial overwrites whose table another writer changes, or whose store fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.errors import (
    CommitFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    MetadataChangedError,
    StoreRefusedError,
)
from lakehouse_lib.operations.write.write import Write, write
from lakehouse_lib.snapshot import load_snapshot
from tests.fault_store import FaultStore
from tests.lakehouse_lib.operations.write.overwrite_cases import made, rows
from tests.peers import parquet_files
from tests.slow_cases import some_slow

VECTORS = {"delta.enableDeletionVectors": "true"}


class TestConcurrentWriters:
    """Another writer commits after the overwrite has read its version."""

    def overwrite_after(self, root: Path, other: Any, options: Write, **properties: str) -> DeltaTable:
        made(root, partition_by=["part"], **properties)
        snapshot = load_snapshot(FaultStore(str(root)))
        other(DeltaTable(root))
        write(snapshot.store, incoming(rows(0, 1)), options, ArrowEngine(), snapshot=snapshot)
        return DeltaTable(root)

    P0 = Write(mode="overwrite", predicate="part = 'p0'")
    LOW = Write(mode="overwrite", predicate="id < 10")
    DYNAMIC = Write(mode="overwrite", partition_overwrite_mode="dynamic")

    @pytest.mark.parametrize("options", some_slow([LOW, P0, DYNAMIC], 1), ids=["rows", "partition", "dynamic"])
    @pytest.mark.parametrize(
        ("other", "error"),
        [
            (lambda table: write_deltalake(table, rows(0, 1), mode="append"), ConcurrentAppendError),
            (lambda table: table.update({"count": "0"}, predicate="id = 3"), ConcurrentAppendError),
            (lambda table: table.delete("id = 3"), ConcurrentAppendError),
            (lambda table: table.delete("part = 'p0'"), ConcurrentDeleteReadError),
            (lambda table: table.optimize.compact(), ConcurrentDeleteReadError),
            (
                lambda table: write_deltalake(
                    table, rows(0, 1).append_column("x", pa.array([1])), mode="append", schema_mode="merge"
                ),
                MetadataChangedError,
            ),
        ],
        ids=["append", "update", "delete rows", "delete partition", "compact", "new column"],
    )
    @pytest.mark.parametrize("properties", some_slow([{}, VECTORS], 1), ids=["copies", "vectors"])
    def test_a_commit_that_touches_the_replaced_rows_is_a_conflict(
        self, tmp_path: Path, options: Write, other: Any, error: type[CommitFailedError], properties: dict[str, str]
    ) -> None:
        with pytest.raises(error):
            self.overwrite_after(tmp_path, other, options, **properties)
        assert DeltaTable(tmp_path).version() == 3
        named = {path for version in range(4) for path in DeltaTable(tmp_path, version).files()["path"].to_pylist()}
        assert {str(path.relative_to(tmp_path.resolve())) for path in parquet_files(tmp_path)} == named

    @pytest.mark.parametrize("options", [P0, LOW, DYNAMIC], ids=["partition", "rows", "dynamic"])
    def test_a_commit_that_touches_other_rows_is_not_a_conflict(self, tmp_path: Path, options: Write) -> None:
        def other(table: DeltaTable) -> None:
            write_deltalake(table, rows(1100, 1), mode="append")
            table.delete("part = 'p1' AND id > 100")

        table = self.overwrite_after(tmp_path, other, options)
        assert table.version() == 5
        ids = table.to_pyarrow_table()["id"].to_pylist()
        assert sorted(ids) == sorted(set(ids))
        assert {0, 50} < set(ids)
        assert not {1, 200} & set(ids) or options is self.LOW

    def test_write_serializable_reorders_a_blind_append(self, tmp_path: Path) -> None:
        def other(table: DeltaTable) -> None:
            write_deltalake(table, rows(1, 1), mode="append")

        table = self.overwrite_after(tmp_path, other, self.LOW, **{"delta.isolationLevel": "WriteSerializable"})
        ids = table.to_pyarrow_table()["id"].to_pylist()
        assert sorted(number for number in ids if number < 10) == [0, 1]

    @pytest.mark.parametrize("options", [P0, LOW, DYNAMIC], ids=["partition", "rows", "dynamic"])
    def test_no_file_is_left_if_the_store_fails(self, tmp_path: Path, options: Write) -> None:
        made(tmp_path, partition_by=["part"], **VECTORS)
        before = set(tmp_path.rglob("*"))

        def fail(_: str) -> None:
            raise StoreRefusedError("no space")

        store = FaultStore(str(tmp_path), before={"put_if_absent": fail})
        with pytest.raises(StoreRefusedError):
            write(store, incoming(rows(0, 1)), options, ArrowEngine())
        assert set(tmp_path.rglob("*")) == before

    def test_another_writer_creates_the_table_first(self, tmp_path: Path) -> None:
        store = FaultStore(str(tmp_path), before={"put_if_absent": lambda _: create_once()})

        def create_once() -> None:
            if not DeltaTable.is_deltatable(tmp_path):
                write_deltalake(tmp_path, rows(0, 5))

        with pytest.raises(MetadataChangedError):
            write(store, incoming(rows(0, 1)), self.LOW, ArrowEngine())
        assert DeltaTable(tmp_path).count() == 5
        assert len(parquet_files(tmp_path)) == 1
