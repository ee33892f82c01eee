"""CLUSTER BY: clustering columns in the log, and z_order by them. delta-rs and DuckDB read the tables."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import (
    ColumnProperties,
    DeltaTable,
    Field,
    Schema,
    WriterProperties,
    write_deltalake,
)
from lakehouse_lib.cli.main import main
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import (
    ConcurrentTransactionError,
    DeltaError,
    DeltaProtocolError,
    InvalidArgumentError,
    LogCorruptedError,
    MetadataChangedError,
)
from lakehouse_lib.fleet.maintenance import maintain, plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.operations.alter.clustering import cluster_by
from lakehouse_lib.operations.alter.mapped_columns import drop_columns
from lakehouse_lib.store import open_store
from tests.peers import read_by_all

BY = ["x", "y"]
MAPPED = {"delta.columnMapping.mode": "name"}
DOMAIN = "delta.clustering"


def rows(count: int = 4_000, seed: int = 0) -> pa.Table:
    numbers = random.Random(seed)
    values = [[numbers.randrange(10_000) for _ in range(count)] for _ in range(2)]
    return pa.table({"id": pa.array(range(count), pa.int64()), "x": values[0], "y": values[1]})


def clustered(root: Path, **options: Any) -> DeltaTable:
    """A table with two files that is clustered by BY; nothing is clustered yet."""
    write_deltalake(root, rows(), **options)
    table = DeltaTable(root)
    table.alter.cluster_by(BY)
    write_deltalake(table, rows(seed=1), mode="append")
    return table


def domain(table: DeltaTable) -> Any:
    return json.loads(table.snapshot.domains[DOMAIN].configuration)["clusteringColumns"]


def actions(root: Path, version: int, kind: str) -> list[Any]:
    lines = (root / f"_delta_log/{version:020}.json").read_text().splitlines()
    return [action[kind] for action in map(json.loads, lines) if kind in action]


def providers(table: DeltaTable) -> list[str | None]:
    return table.snapshot.files["clusteringProvider"].to_pylist()


def refused(error: type[DeltaError], code: str, verb: Callable[[], object]) -> DeltaError:
    with pytest.raises(error) as caught:
        verb()
    assert caught.value.code == code
    return caught.value


def test_a_table_is_clustered_by_its_columns(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    assert actions(tmp_path, 1, "domainMetadata")[0]["configuration"] == (
        '{"clusteringColumns":[["x"],["y"]],"domainName":"delta.clustering"}'
    )
    assert {"clustering", "domainMetadata"} <= set(actions(tmp_path, 1, "protocol")[0]["writerFeatures"])
    (info,) = actions(tmp_path, 1, "commitInfo")
    assert info["operation"] == "CLUSTER BY"
    assert info["operationParameters"] == {"oldClusteringColumns": "", "newClusteringColumns": "x,y"}
    before = read_by_all(tmp_path)

    metrics = table.optimize.z_order(target_size=20_000)
    assert metrics["numFilesAdded"] > 2
    assert set(providers(table)) == {"lakehouse"}
    (info,) = actions(tmp_path, table.version(), "commitInfo")
    parameters = {name: info["operationParameters"][name] for name in ("zOrderBy", "clusterBy", "isFull")}
    assert {name: json.loads(str(value).lower()) for name, value in parameters.items() if name == "isFull"}
    assert "x" in str(parameters["clusterBy"])
    assert "x" not in str(parameters["zOrderBy"])
    assert read_by_all(tmp_path) == before
    assert table.optimize.z_order(target_size=20_000)["numFilesAdded"] == 0
    assert table.optimize.z_order(["Y", "x"], target_size=20_000)["numFilesAdded"] == 0  # the same columns
    assert table.detail()["clusteringColumns"] == BY
    assert table.health().clustered_by == ("x", "y")
    assert set(table.health().skipping) == {"x", "y"}


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("text", "CAST(id AS STRING)"),
        ("ratio", "CAST(id AS DOUBLE)"),
        ("price", "CAST(id AS DECIMAL(12, 2))"),
        ("day", "DATE_ADD(DATE'2026-01-01', CAST(id % 100 AS INT))"),
        ("moment", "TIMESTAMP_SECONDS(id * 1000)"),
        ("local", "CAST(TIMESTAMP_SECONDS(id * 1000) AS TIMESTAMP_NTZ)"),
    ],
)
def test_clustering_columns_of_each_type_on_spark(tmp_path: Path, spark: Any, name: str, expression: str) -> None:
    frame = spark.range(0, 4_000, 1, 2).selectExpr("id", f"IF(id % 7 = 0, NULL, {expression}) AS {name}")
    engine = SparkEngine(spark)
    write_deltalake(tmp_path, frame, engine=engine)
    table = DeltaTable(tmp_path, engine=engine)
    table.alter.cluster_by([name])
    write_deltalake(table, frame, mode="append")
    before = read_by_all(tmp_path)
    table.optimize.z_order(target_size=10_000)
    assert set(providers(table)) == {"lakehouse"}
    assert len(providers(table)) > 2
    write_deltalake(table, before.slice(0, 10), mode="append", engine=ArrowEngine())
    table.delete("id = 3")
    left = pa.concat_tables([before, before.slice(0, 10)])["id"].to_numpy()
    assert len(read_by_all(tmp_path)) == (left != 3).sum()


def test_copies_of_clustered_files_stay_clustered(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    table.optimize.z_order(target_size=20_000)
    table.delete("id % 100 = 1")  # no file becomes small
    assert set(providers(table)) == {"lakehouse"}
    assert table.optimize.z_order(target_size=20_000)["numFilesAdded"] == 0


def test_compaction_does_not_cluster(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    assert table.optimize.compact()["numFilesAdded"] == 1
    assert providers(table) == [None]
    table.optimize.z_order(target_size=20_000)
    assert table.optimize.compact(target_size=20_000)["numFilesAdded"] == 0
    assert set(providers(table)) == {"lakehouse"}


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


def test_a_table_that_was_never_clustered_stays_as_it_is(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows())
    table = DeltaTable(tmp_path)
    table.alter.cluster_by(None)
    table.optimize.z_order(BY)
    assert table.version() == 0 or set(providers(table)) == {None}
    assert table.protocol().min_writer_version == 2
    assert table.detail()["clusteringColumns"] == []


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


def test_a_clustered_table_takes_no_other_columns(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    code = "DELTA_CLUSTERING_WITH_ZORDER_BY"
    for columns in (["id"], ["x"], ["x", "y", "id"]):
        refused(InvalidArgumentError, code, lambda columns=columns: table.optimize.z_order(columns))


def test_files_of_another_engine_stay(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    log = sorted((tmp_path / "_delta_log").glob("*.json"))[-1]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (foreign,) = (action["add"] for action in lines if "add" in action)
    foreign["clusteringProvider"] = "liquid"
    log.write_text("".join(json.dumps(action) + "\n" for action in lines))
    for path in (tmp_path / "_delta_log").glob("*.crc"):
        path.unlink()
    table = DeltaTable(tmp_path)
    metrics = table.optimize.z_order(target_size=20_000)
    assert metrics["numFilesRemoved"] == 1
    assert foreign["path"] in table.snapshot.files["path"].to_pylist()
    assert table.optimize.z_order(target_size=20_000)["numFilesAdded"] == 0
    table.optimize.z_order(target_size=20_000, full=True)
    assert set(providers(table)) == {"lakehouse"}


def test_the_planner_clusters_by_the_columns_of_the_table(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    fleet = [MaintainedTable("events", open_store(tmp_path), Policy(verbs=("optimize", "z_order")))]
    steps = plan_fleet(fleet, Budget()).plan.steps
    assert [(step.verb, step.arguments["columns"]) for step in steps] == [("z_order", BY)]
    maintain(fleet, Budget(), ArrowEngine)
    assert set(providers(DeltaTable(tmp_path))) == {"lakehouse"}
    assert table.version() < DeltaTable(tmp_path).version()
    assert not plan_fleet(fleet, Budget()).plan.steps
    other = [MaintainedTable("events", open_store(tmp_path), Policy(cluster_by=("id",)))]
    assert plan_fleet(other, Budget()).errors["events"].code == "DELTA_CLUSTERING_WITH_ZORDER_BY"


def test_the_command_line_clusters_by_the_columns_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = clustered(tmp_path / "clustered")
    assert main(["z-order", table.table_uri, "--run"]) == 0
    assert set(providers(DeltaTable(table.table_uri))) == {"lakehouse"}
    write_deltalake(tmp_path / "plain", rows(10))
    capsys.readouterr()
    assert main(["z-order", str(tmp_path / "plain")]) == 1
    assert "expected at least one name" in capsys.readouterr().err


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


def test_a_table_of_delta_spark_is_clustered_further(tmp_path: Path) -> None:
    root = tmp_path / "clustering"
    shutil.copytree("tests/data/delta_spark/tables/clustering", root)
    columns = [DeltaTable(root, version).detail()["clusteringColumns"] for version in range(8)]
    assert columns == [["a", "s.b"]] * 3 + [["id"]] * 4 + [[]]
    table = DeltaTable(root)
    table.restore(5)
    assert (domain(table), providers(table)) == ([["id"]], ["liquid"])
    for numbers in (range(30, 1000), range(1000, 2000)):
        data = pa.table({"id": pa.array(numbers, pa.int64())})
        write_deltalake(table, data, mode="append", schema_mode="merge")
    rows_before = read_by_all(root)
    assert table.optimize.z_order()["numFilesRemoved"] == 2
    assert sorted(providers(table)) == ["lakehouse", "liquid"]
    table.optimize.z_order(full=True)
    assert providers(table) == ["lakehouse"]
    assert read_by_all(root) == rows_before


def test_files_of_other_engines_without_statistics_are_added_again(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(10), configuration={"delta.enableDeletionVectors": "true"})
    log = tmp_path / f"_delta_log/{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (add,) = (action["add"] for action in lines if "add" in action)
    add["stats"] = '{"numRecords":10}'
    log.write_text("".join(json.dumps(action) + "\n" for action in lines))
    for path in (tmp_path / "_delta_log").glob("*.crc"):
        path.unlink()
    feature = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    names = ["appendOnly", "invariants", "deletionVectors", "domainMetadata", "clustering"]
    clustered_by_x = {"domain": DOMAIN, "configuration": '{"clusteringColumns":[["x"]]}', "removed": False}
    actions_of_1 = [{"protocol": {**feature, "writerFeatures": names}}, {"domainMetadata": clustered_by_x}]
    text = "".join(json.dumps(action) + "\n" for action in actions_of_1)
    (tmp_path / f"_delta_log/{1:020}.json").write_text(text)
    table = DeltaTable(tmp_path)
    table.delete("id = 3")
    assert len(read_by_all(tmp_path)) == 9
    table.restore(1)
    assert len(table.clone(tmp_path.parent / "copy").to_pyarrow_table()) == 10
    table.optimize.statistics()
    assert "nullCount" in table.snapshot.files["stats"][0].as_py()


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
