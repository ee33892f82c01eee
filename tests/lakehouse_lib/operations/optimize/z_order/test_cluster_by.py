"""CLUSTER BY, and z_order by the clustering columns. delta-rs and DuckDB read the tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.cli.main import main
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.maintenance import maintain, plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.store import open_store
from tests.lakehouse_lib.operations.optimize.z_order.clustered_table import (
    BY,
    DOMAIN,
    actions,
    clustered,
    domain,
    providers,
    refused,
    rows,
)
from tests.peers import read_by_all


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


def test_a_table_that_was_never_clustered_is_unchanged(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows())
    table = DeltaTable(tmp_path)
    table.alter.cluster_by(None)
    table.optimize.z_order(BY)
    assert table.version() == 0 or set(providers(table)) == {None}
    assert table.protocol().min_writer_version == 2
    assert table.detail()["clusteringColumns"] == []


def test_a_clustered_table_refuses_other_columns(tmp_path: Path) -> None:
    table = clustered(tmp_path)
    code = "DELTA_CLUSTERING_WITH_ZORDER_BY"
    for columns in (["id"], ["x"], ["x", "y", "id"]):
        refused(InvalidArgumentError, code, lambda columns=columns: table.optimize.z_order(columns))


def test_clustered_files_of_another_engine_are_kept(tmp_path: Path) -> None:
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
