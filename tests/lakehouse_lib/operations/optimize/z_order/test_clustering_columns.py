"""Clustering columns in the log: they are set, changed, refused, renamed, restored and removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import ColumnProperties, DeltaTable, Field, Schema, WriterProperties, write_deltalake
from lakehouse_lib.errors import (
    ConcurrentTransactionError,
    DeltaProtocolError,
    InvalidArgumentError,
    LogCorruptedError,
    MetadataChangedError,
)
from lakehouse_lib.operations.alter.clustering import cluster_by
from lakehouse_lib.operations.alter.mapped_columns import drop_columns
from tests.lakehouse_lib.operations.optimize.z_order.clustered_table import (
    BY,
    DOMAIN,
    MAPPED,
    clustered,
    domain,
    providers,
    refused,
    rows,
)
from tests.peers import read_by_all


def test_clustering_columns_are_changed_and_removed(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    table.optimize.z_order()
    table.alter.cluster_by("x")
    version = table.version()
    table.alter.cluster_by(["X"])
    assert (table.version(), domain(table)) == (version, [["x"]])
    assert table.optimize.z_order()["zOrderBy"] == ["x"]
    table.alter.cluster_by(None)
    assert domain(table) == []
    assert table.detail()["clusteringColumns"] == []
    refused(InvalidArgumentError, "DELTA_INVALID_ARGUMENT", table.optimize.z_order)
    table.optimize.z_order(["y"], target_size=20_000)
    assert set(providers(table)) == {None}
    version = table.version()
    table.alter.cluster_by([])
    assert table.version() == version


def test_a_table_is_created_with_clustering_columns(tmp_path: Path) -> None:
    schema = Schema([Field("x", "long"), Field("text", "string")])
    table = DeltaTable.create(tmp_path, schema, cluster_by=["text", "X"], configuration=MAPPED)
    assert table.detail()["clusteringColumns"] == ["text", "x"]
    physical = {field.name: field.metadata["delta.columnMapping.physicalName"] for field in table.schema().fields}
    assert domain(table) == [[physical["text"]], [physical["x"]]]
    write_deltalake(table, pa.table({"x": [1, 2], "text": ["a", "b"]}), mode="append")
    read_by_all(tmp_path)
    # As in delta-spark, a table that replaces it has other clustering columns, or none.
    replaced = DeltaTable.create(tmp_path, schema, mode="overwrite", cluster_by="x")
    assert replaced.detail()["clusteringColumns"] == ["x"]
    assert DeltaTable.create(tmp_path, schema, mode="overwrite").detail()["clusteringColumns"] == []


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        (["x", "y", "id", "text", "flag"], "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS"),
        (["flag"], "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED"),
        (["list"], "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED"),
        (["late"], "DELTA_CLUSTERING_COLUMN_MISSING_STATS"),
        (["nothing"], "DELTA_COLUMN_NOT_FOUND"),
        (["struct.inner"], "DELTA_COLUMN_NOT_FOUND"),
        (["x", "X"], "DELTA_INVALID_ARGUMENT"),
        (7, "DELTA_INVALID_ARGUMENT"),
    ],
)
def test_columns_that_cannot_be_clustering_columns_are_refused(tmp_path: Path, columns: Any, code: str) -> None:
    data = rows(10)
    for name, values in {
        "text": ["a"] * 10,
        "flag": [True] * 10,
        "list": [[1]] * 10,
        "struct": [{"inner": 1}] * 10,
        "late": [1] * 10,
    }.items():
        data = data.append_column(name, pa.array(values))
    properties = {"delta.dataSkippingStatsColumns": "id,x,y,text,flag,struct"}
    write_deltalake(tmp_path / "altered", data, configuration=properties)
    table = DeltaTable(tmp_path / "altered")
    refused(InvalidArgumentError, code, lambda: table.alter.cluster_by(columns))
    assert table.version() == 0
    new = tmp_path / "new"
    schema = Schema.from_arrow(data.schema)
    refused(
        InvalidArgumentError,
        code,
        lambda: DeltaTable.create(new, schema, configuration=properties, cluster_by=columns),
    )
    assert not DeltaTable.is_deltatable(new)


def test_a_table_has_partitions_or_clustering_columns(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "parts", rows(10), partition_by=["y"])
    parts, code = DeltaTable(tmp_path / "parts"), "DELTA_CLUSTER_BY_WITH_PARTITIONED_BY"
    refused(InvalidArgumentError, code, lambda: parts.alter.cluster_by(["x"]))
    refused(
        InvalidArgumentError,
        code,
        lambda: DeltaTable.create(tmp_path / "new", parts.schema(), partition_by="y", cluster_by=["x"]),
    )
    table = clustered(tmp_path / "clustered")
    overwrite = {"mode": "overwrite", "schema_mode": "overwrite", "partition_by": ["y"]}
    refused(DeltaProtocolError, code, lambda: write_deltalake(table, rows(10), **overwrite))
    table.alter.drop_feature("clustering")
    write_deltalake(table, rows(10), **overwrite)
    refused(DeltaProtocolError, code, lambda: table.alter.add_feature("clustering"))


def test_files_without_statistics_are_refused(tmp_path: Path) -> None:
    no_statistics = WriterProperties(column_properties={"x": ColumnProperties(statistics_enabled="NONE")})
    write_deltalake(tmp_path, rows(10), writer_properties=no_statistics)
    table, code = DeltaTable(tmp_path), "DELTA_CLUSTERING_COLUMN_MISSING_STATS"
    assert "statistics()" in str(refused(InvalidArgumentError, code, lambda: table.alter.cluster_by(["x"])).hint)
    table.delete("true")
    write_deltalake(table, rows(10), mode="append")
    table.alter.cluster_by(["x"])
    files = set(tmp_path.glob("*.parquet"))

    def append() -> None:
        write_deltalake(table, rows(10), mode="append", writer_properties=no_statistics)

    refused(DeltaProtocolError, code, append)
    assert set(tmp_path.glob("*.parquet")) == files
    with pytest.raises(DeltaProtocolError, match="clustering column"):
        table.optimize.z_order(full=True, target_size=100, writer_properties=no_statistics)
    refused(
        DeltaProtocolError,
        code,
        lambda: table.alter.set_table_properties({"delta.dataSkippingStatsColumns": "id"}),
    )
    table.alter.set_table_properties({"delta.dataSkippingStatsColumns": "id,x"})


def test_clustering_columns_are_renamed_and_not_dropped(tmp_path: Path) -> None:
    table = clustered(tmp_path, configuration=MAPPED)
    physical = domain(table)
    table.alter.rename_column("x", "z")
    assert domain(table) == physical
    assert table.detail()["clusteringColumns"] == ["z", "y"]
    assert table.optimize.z_order()["zOrderBy"] == ["z", "y"]
    refused(InvalidArgumentError, "DELTA_COLUMN_IN_USE", lambda: table.alter.drop_columns(["z"]))
    without = rows(10).drop_columns(["x"])
    refused(
        DeltaProtocolError,
        "DELTA_COLUMN_IN_USE",
        lambda: write_deltalake(table, without, mode="overwrite", schema_mode="overwrite"),
    )
    # Without column mapping, physical names are the names.
    table.alter.set_table_properties({"delta.columnMapping.mode": "none"})
    assert domain(table) == [["z"], ["y"]]
    read_by_all(tmp_path)


def test_restore_and_clone_take_the_clustering_columns_of_the_version(tmp_path: Path) -> None:
    root = tmp_path / "table"
    table = clustered(root)
    table.optimize.z_order()
    version = table.version()
    table.alter.cluster_by(["id"])
    table.restore(version)
    assert domain(table) == [["x"], ["y"]]
    assert set(providers(table)) == {"lakehouse"}
    table.restore(0)
    assert domain(table) == []
    before = table.version()
    table.restore(0)  # it is equal already
    assert table.version() == before
    table.restore(version)
    for name, shallow in (("deep", False), ("shallow", True)):
        copy = table.clone(tmp_path / name, is_shallow=shallow)
        assert copy.detail()["clusteringColumns"] == BY
        assert copy.optimize.z_order()["numFilesAdded"] == 0


def test_the_feature_is_dropped(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    table.optimize.z_order()
    table.alter.drop_feature("clustering")
    assert DOMAIN not in table.snapshot.domains
    assert "clustering" not in table.detail()["tableFeatures"]
    assert table.detail()["clusteringColumns"] == []
    table.alter.cluster_by(["id"])
    assert domain(table) == [["id"]]
    read_by_all(tmp_path)


def test_concurrent_changes_of_clustering_columns(tmp_path: Path) -> None:
    table = clustered(tmp_path, configuration=MAPPED)
    stale = DeltaTable(tmp_path).snapshot
    table.alter.cluster_by(["id"])
    with pytest.raises(ConcurrentTransactionError, match=DOMAIN):
        cluster_by(stale, ["x"])
    with pytest.raises(MetadataChangedError, match="clustering columns"):
        drop_columns(DeltaTable(tmp_path, stale.version - 2).snapshot, ["id"])
    stale_table = DeltaTable(tmp_path, table.version() - 1)
    write_deltalake(stale_table, rows(10), mode="append")  # an append does not conflict
    assert domain(DeltaTable(tmp_path)) == [[stale.layout.physical_name(stale.field("id"))]]


@pytest.mark.parametrize(
    ("configuration", "columns"),
    [('{"clusteringColumns":["x"]}', ["x"]), ('{"clusteringColumns":[["s","a"],["x"]]}', ["s.a", "x"])],
)
def test_domains_of_other_engines(tmp_path: Path, configuration: str, columns: list[str]) -> None:
    data = pa.table({"x": [1, 2], "s": [{"a": 1}, {"a": 2}]})
    write_deltalake(tmp_path, data)
    table = DeltaTable(tmp_path)
    table.alter.cluster_by(["x"])
    _set_domain(tmp_path, configuration)
    table = DeltaTable(tmp_path)
    assert table.detail()["clusteringColumns"] == columns
    write_deltalake(table, data, mode="append")
    if len(columns) == 1:
        table.optimize.z_order()
    else:
        refused(InvalidArgumentError, "DELTA_INVALID_ARGUMENT", table.optimize.z_order)
        assert table.health().clustered_by == ()
    read_by_all(tmp_path)


@pytest.mark.parametrize("configuration", ["", "[]", '{"clusteringColumns":7}', '{"clusteringColumns":[[]]}'])
def test_a_domain_that_is_not_valid_is_refused(tmp_path: Path, configuration: str) -> None:
    write_deltalake(tmp_path, rows(10))
    DeltaTable(tmp_path).alter.cluster_by(["x"])
    _set_domain(tmp_path, configuration)
    table = DeltaTable(tmp_path)
    assert table.to_pyarrow_table().num_rows == 10
    with pytest.raises(LogCorruptedError, match="clusteringColumns"):
        write_deltalake(table, rows(10), mode="append")


def _set_domain(root: Path, configuration: str) -> None:
    action = {"domainMetadata": {"domain": DOMAIN, "configuration": configuration, "removed": False}}
    version = DeltaTable(root).version() + 1
    (root / f"_delta_log/{version:020}.json").write_text(json.dumps(action) + "\n")
