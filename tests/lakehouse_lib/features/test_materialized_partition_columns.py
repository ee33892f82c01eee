"""materializePartitionColumns: every verb writes the partition columns into its files; readers use the log's values."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import (
    AddAction,
    DeltaTable,
    Schema,
    convert_to_deltalake,
    create_table_with_add_actions,
    write_deltalake,
)
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError, UnsupportedFeatureError
from lakehouse_lib.expressions import parse
from lakehouse_lib.features import writer_features
from lakehouse_lib.operations.dml.delete import delete
from tests.peers import parquet_files, plain, read_by_all, read_engine

ROWS = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "day": [date(2024, 1, 1), None, date(2024, 1, 2), date(2024, 1, 1)] * 2,
        "city": ["a/b", "Zürich", None, "a/b"] * 2,
    }
)
ENABLED = {"delta.enableMaterializePartitionColumnsFeature": "true"}


def check_files(root: Path) -> None:
    """Every file, read alone as Parquet, has its partition values, after the other columns."""
    snapshot = DeltaTable(root).snapshot
    keys = snapshot.layout.partition_keys
    for path, values in zip(*snapshot.files.select(["path", "partitionValues"]).to_pydict().values(), strict=True):
        rows = pq.ParquetFile(root / unquote(path)).read()
        assert rows.schema.names[-2:] == list(keys.values())
        for key, text in values:
            assert {None if value is None else str(value) for value in rows[key].to_pylist()} == {text}


@pytest.mark.parametrize("mode", ["none", "name"])
def test_every_verb_writes_the_copies(tmp_path: Path, engine: Engine, mode: str) -> None:
    write_deltalake(
        tmp_path,
        ROWS,
        partition_by=["day", "city"],
        configuration=ENABLED | {"delta.columnMapping.mode": mode},
        engine=engine,
    )
    table = DeltaTable(tmp_path, engine=engine)
    check_files(tmp_path)
    write_deltalake(table, ROWS.slice(0, 3), mode="append")
    table.delete("id = 1")
    table.update({"id": "id + 100"}, predicate="id = 2")
    (
        table.merge(ROWS.slice(3, 3), "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    check_files(tmp_path)
    table.optimize.compact()
    table.optimize.z_order(["id"])
    check_files(tmp_path)
    rows = read_engine(engine, tmp_path)
    assert sorted(rows["id"].to_pylist()) == [0, 0, 3, 4, 5, 6, 7, 102, 102]
    if mode == "none":
        assert read_by_all(tmp_path).equals(rows)
        assert plain(table.to_pyarrow_dataset().to_table()).equals(rows)
    else:  # DuckDB mixes up mapped partition columns, also without copies
        by_sql = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path))
        assert plain(pa.table(by_sql.execute("SELECT id, day, city FROM t").read_all())).equals(rows)


def test_values_of_the_log_replace_values_of_files(tmp_path: Path, engine: Engine) -> None:
    write_deltalake(tmp_path, ROWS.select(["id", "city"]), partition_by=["city"], configuration=ENABLED)
    for path in parquet_files(tmp_path):
        rows = pq.ParquetFile(path).read()
        pq.write_table(rows.set_column(1, "city", pa.array(["wrong"] * len(rows))), path)
    rows = read_engine(engine, tmp_path)
    assert rows.equals(plain(ROWS.select(["id", "city"])))
    assert sorted(read_engine(engine, tmp_path, "city = 'a/b'")["id"].to_pylist()) == [0, 3, 4, 7]


def test_a_table_gets_and_loses_the_feature(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, partition_by=["day", "city"])
    old = DeltaTable(tmp_path).snapshot
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties(ENABLED)
    assert "materializePartitionColumns" in writer_features(DeltaTable(tmp_path).snapshot.protocol)
    with pytest.raises(DeltaError):  # its files would lack the copies
        delete(old, parse("id = 3", old.schema), table.engine)
    write_deltalake(table, ROWS, mode="overwrite")
    check_files(tmp_path)
    table.alter.drop_feature("materializePartitionColumns")
    after = DeltaTable(tmp_path)
    assert (after.metadata().configuration, after.snapshot.protocol.min_writer_version) == ({}, 2)
    write_deltalake(after, ROWS.slice(0, 1), mode="append")
    assert len(read_by_all(tmp_path)) == 9


def test_files_of_other_programs_are_refused(tmp_path: Path) -> None:
    """They may lack the copies, and are not read."""
    (tmp_path / "city=x").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "city=x" / "1.parquet")
    size = (tmp_path / "city=x" / "1.parquet").stat().st_size
    file = AddAction("city=x/1.parquet", size, {"city": "x"}, 1, True, '{"numRecords":1}')
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    city = pa.schema([schema.field("city")])
    for configuration in (ENABLED, {"delta.feature.materializePartitionColumns": "supported"}):
        with pytest.raises(UnsupportedFeatureError, match="materializePartitionColumns"):
            create_table_with_add_actions(tmp_path, schema, [file], partition_by=["city"], configuration=configuration)
        with pytest.raises(UnsupportedFeatureError, match="materializePartitionColumns"):
            convert_to_deltalake(tmp_path, partition_by=city, partition_strategy="hive", configuration=configuration)
    table = DeltaTable.create(tmp_path, Schema.from_arrow(schema), partition_by=["city"], configuration=ENABLED)
    with pytest.raises(UnsupportedFeatureError, match="materializePartitionColumns"):
        table.create_write_transaction([file], "append", schema)
    with pytest.raises(UnsupportedFeatureError, match="materializePartitionColumns"):
        create_table_with_add_actions(tmp_path, schema, [file], "overwrite", ["city"])
    assert DeltaTable(tmp_path).version() == 0


def test_a_new_table_by_the_feature_alone(tmp_path: Path) -> None:
    supported = {"delta.feature.materializePartitionColumns": "supported"}
    write_deltalake(tmp_path, ROWS, partition_by=["day", "city"], configuration=supported)
    check_files(tmp_path)
    assert len(read_by_all(tmp_path)) == 8
