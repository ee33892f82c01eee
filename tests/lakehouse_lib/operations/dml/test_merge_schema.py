"""MERGE that adds columns of its source to the table, beside delta-rs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import DeltaError, MetadataChangedError
from tests.peers import parquet_files, plain, read_by_all, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow

ON = "target.id = source.id"
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
SOURCE = pa.table({"id": [2, 9], "name": ["B", "I"], "city": ["Bonn", "Inn"], "rank": pa.array([7, 8], pa.int32())})

Clause = tuple[str, dict[str, Any]]
UPDATE_ALL: Clause = ("when_matched_update_all", {})
INSERT_ALL: Clause = ("when_not_matched_insert_all", {})


def run(table: Any, data: Any, clauses: list[Clause], **arguments: Any) -> dict[str, Any]:
    merger = table.merge(data, ON, source_alias="source", target_alias="target", merge_schema=True, **arguments)
    for method, parameters in clauses:
        merger = getattr(merger, method)(**parameters)
    metrics: dict[str, Any] = merger.execute()
    return metrics


@pytest.mark.parametrize(
    "clauses",
    some_slow(
        [
            [UPDATE_ALL, INSERT_ALL],
            [("when_matched_update_all", {"except_cols": ["rank"]})],
            [("when_matched_update", {"updates": {"rank": "source.rank"}})],
            [("when_not_matched_insert", {"updates": {"id": "source.id", "city": "source.city"}})],
            [("when_matched_delete", {}), ("when_not_matched_insert_all", {"predicate": "source.rank = 8"})],
            [UPDATE_ALL],
            [INSERT_ALL],
            [("when_not_matched_by_source_update", {"updates": {"name": "'gone'"}}), UPDATE_ALL],
            [("when_matched_update", {"updates": {"name": "source.name"}})],
        ],
        5,
    ),
)
@pytest.mark.parametrize("partition_by", some_slow([["name"], None], 1))
def test_beside_delta_rs(tmp_path: Path, clauses: list[Clause], partition_by: list[str] | None) -> None:
    own, peer = tmp_path / "own", tmp_path / "peer"
    for root in (own, peer):
        deltalake.write_deltalake(root, ROWS, partition_by=partition_by)
    run(DeltaTable(own), SOURCE, clauses)
    run(deltalake.DeltaTable(peer), SOURCE, clauses)
    rows = read_by_all(own)
    assert rows.to_pylist() == read_delta_rs(peer).to_pylist()
    # delta-rs adds the new columns in any order.
    own_fields, peer_fields = (
        {field.name: (field.type, field.nullable) for field in deltalake.DeltaTable(root).schema().fields}
        for root in (own, peer)
    )
    assert own_fields == peer_fields


def test_an_update_assigns_new_columns_by_its_expressions_alone(tmp_path: Path) -> None:
    """As in delta-spark; delta-rs 1.6.6 takes the source's values of new columns, whatever the clause assigns."""
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    run(table, SOURCE, [("when_matched_update", {"updates": {"rank": "source.rank + 1"}})])
    assert read_by_all(tmp_path)["rank"].to_pylist() == [None, 8, None]
    run(table, SOURCE, [("when_matched_update", {"updates": {"name": "source.city"}}), INSERT_ALL])
    assert read_by_all(tmp_path).to_pylist()[1:] == [
        {"id": 2, "name": "Bonn", "rank": 8, "city": None},
        {"id": 3, "name": "c", "rank": None, "city": None},
        {"id": 9, "name": "I", "rank": 8, "city": "Inn"},
    ]


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableRowTracking": "true"},
        {"delta.columnMapping.mode": "name"},
    ],
    ids=["vectors", "ids", "mapping"],
)
def test_features(tmp_path: Path, engine: Engine, properties: dict[str, str]) -> None:
    write_deltalake(tmp_path, ROWS, configuration=properties)
    table = DeltaTable(tmp_path, engine=engine)
    before = table.version()
    metrics = run(table, SOURCE, [UPDATE_ALL, INSERT_ALL])
    expected = [
        {"id": 1, "name": "a", "city": None, "rank": None},
        {"id": 2, "name": "B", "city": "Bonn", "rank": 7},
        {"id": 3, "name": "c", "city": None, "rank": None},
        {"id": 9, "name": "I", "city": "Inn", "rank": 8},
    ]
    assert plain(table.to_pyarrow_table()).to_pylist() == expected
    assert read_duckdb(tmp_path).to_pylist() == expected
    assert (metrics["num_target_rows_updated"], metrics["num_target_rows_inserted"]) == (1, 1)
    assert table.version() == before + 1
    run(table, pa.table({"id": [1], "zip": [5]}), [UPDATE_ALL])
    assert table.schema().names[-1] == "zip"
    assert read_duckdb(tmp_path)["zip"].to_pylist() == [5, None, None, None]


def test_nested_fields(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "s": [{"a": 1}, {"a": 2}], "l": [[{"a": 1}], None]}))
    data = pa.table({"id": [2, 3], "s": [{"a": 5, "b": "x"}, {"a": 6, "b": None}], "l": [[{"a": 7, "c": 1}], []]})
    table = DeltaTable(tmp_path)
    run(table, data, [("when_matched_update_all", {"except_cols": ["l"]})])
    rows = read_by_all(tmp_path).to_pylist()
    assert [row["s"] for row in rows] == [{"a": 1, "b": None}, {"a": 5, "b": "x"}]
    run(table, data, [UPDATE_ALL, INSERT_ALL])
    assert [row["l"] for row in read_by_all(tmp_path).to_pylist()] == [[{"a": 1, "c": None}], [{"a": 7, "c": 1}], []]


def test_conditions_see_the_columns_before_the_merge(tmp_path: Path) -> None:
    """A name without an alias that only the source has stays unambiguous."""
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    run(table, SOURCE, [("when_matched_update_all", {"predicate": "rank = 7"})])
    assert read_by_all(tmp_path)["city"].to_pylist() == [None, "Bonn", None]


def test_no_new_columns_without_merge_schema(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    with pytest.raises(DeltaError, match="merge_schema=True") as refused:
        table.merge(SOURCE, ON).when_matched_update_all()
    assert refused.value.code == "DELTA_COLUMN_NOT_FOUND"
    with pytest.raises(DeltaError, match="'town'"):
        table.merge(SOURCE, ON, merge_schema=True).when_matched_update({"town": "source.city"})


@pytest.mark.parametrize("change", ["schema", "property"])
def test_a_concurrent_change_of_the_metadata(tmp_path: Path, change: str) -> None:
    """Nothing of another writer's metadata is lost."""
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    merger = table.merge(SOURCE, ON, merge_schema=True).when_matched_update_all()
    snapshot, table._latest = table._latest(), lambda: snapshot  # type: ignore[method-assign]
    if change == "schema":
        write_deltalake(tmp_path, pa.table({"id": [5], "age": [30]}), mode="append", schema_mode="merge")
    else:
        deltalake.DeltaTable(tmp_path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    files = parquet_files(tmp_path)
    with pytest.raises(MetadataChangedError):
        merger.execute()
    assert parquet_files(tmp_path) == files


def test_a_spark_dataframe_as_source(tmp_path: Path, spark: Any) -> None:
    write_deltalake(tmp_path, ROWS)
    data = spark.createDataFrame([(2, "B", 7), (9, "I", 8)], "id long, name string, rank int")
    run(DeltaTable(tmp_path), data, [UPDATE_ALL, INSERT_ALL])
    assert read_by_all(tmp_path).to_pylist() == [
        {"id": 1, "name": "a", "rank": None},
        {"id": 2, "name": "B", "rank": 7},
        {"id": 3, "name": "c", "rank": None},
        {"id": 9, "name": "I", "rank": 8},
    ]
