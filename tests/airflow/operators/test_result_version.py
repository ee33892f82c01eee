"""A task reports and links to the version that it has committed, even if other writers commit after it."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.lineage import Lineage
from lakehouse_airflow.operators.checkpoint import LakehouseCheckpointOperator
from lakehouse_airflow.operators.repair import LakehouseRepairOperator
from lakehouse_airflow.operators.vacuum import LakehouseVacuumOperator
from lakehouse_lib.catalogue.operation import TableOperation
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.operations.write import write as write_module
from spark_jobs import aggregate, compact
from tests.spark_jobs.loading import Shop
from tests.table_builder import longs

OTHERS = longs(o_custkey=[99])


@pytest.fixture
def orders(registry_file: Path) -> Path:
    """Three versions of the table ``orders``, with one file each."""
    table = registry_file.parent / "tables" / "orders"
    for number in range(3):
        write_deltalake(table, longs(o_custkey=[number]), mode="append")
    return table


@pytest.fixture
def another_writer(orders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make delta-rs commit to ``orders`` directly after each commit of a verb."""
    load = TableOperation.load

    def before_another(operation: TableOperation) -> Callable[..., Any]:
        def verb(**arguments: Any) -> Any:
            result = load(operation)(**arguments)
            write_deltalake(orders, OTHERS, mode="append")
            return result

        return verb

    monkeypatch.setattr(TableOperation, "load", before_another)
    return


def operation(table: Path, version: int) -> str:
    """The operation of a version, as delta-rs reads its commit."""
    return next(entry["operation"] for entry in DeltaTable(table).history() if entry["version"] == version)


@pytest.mark.usefixtures("another_writer")
def test_vacuum_and_repair_name_their_own_commits(orders: Path) -> None:
    DeltaTable(orders).optimize.compact()
    vacuum = LakehouseVacuumOperator(task_id="t", table="orders", retention_hours=0, enforce_retention=False)
    assert vacuum.execute({})["files_deleted"] == 3
    assert vacuum.result_version is not None
    assert operation(orders, vacuum.result_version[1]) == "VACUUM END"
    assert DeltaTable(orders).version() == vacuum.result_version[1] + 1

    next(file for file in orders.glob("*.parquet")).unlink()
    repair = LakehouseRepairOperator(task_id="t", table="orders", dry_run=False)
    repair.execute({})
    assert repair.result_version is not None
    assert operation(orders, repair.result_version[1]) == "FSCK"
    assert DeltaTable(orders).version() == repair.result_version[1] + 1


@pytest.mark.usefixtures("another_writer")
def test_a_vacuum_without_files_to_delete_names_the_version_that_it_read(orders: Path) -> None:
    vacuum = LakehouseVacuumOperator(task_id="t", table="orders", dry_run=True)
    vacuum.execute({})
    assert vacuum.result_version == ("orders", 2)


@pytest.mark.usefixtures("another_writer", "orders")
def test_a_checkpoint_names_its_version() -> None:
    checkpoint = LakehouseCheckpointOperator(task_id="t", table="orders")
    checkpoint.execute({})
    assert checkpoint.result_version == ("orders", 2)


@pytest.mark.usefixtures("another_writer")
def test_a_compaction_names_its_own_commit(orders: Path, spark: Any) -> None:
    run = compact.prepare(compact.arguments().parse_args(["--table", str(orders)]))
    result = run(spark)
    assert operation(orders, result["version"]) == "OPTIMIZE"
    assert DeltaTable(orders).version() == result["version"] + 1


def test_an_aggregate_names_its_own_commit(
    orders: Path, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "report"
    query = tmp_path / "query.sql"
    query.write_text("select o_custkey from orders")
    write = write_module.write

    def before_others(*arguments: Any, **options: Any) -> Any:
        result = write(*arguments, **options)
        for _ in range(25):
            write_deltalake(output, OTHERS, mode="append")
        return result

    monkeypatch.setattr(write_module, "write", before_others)
    command_line = ["--input", f"orders={orders}", "--sql-file", str(query), "--output", str(output)]
    options: Namespace = aggregate.arguments().parse_args([*command_line, "--app-id", "report", "--app-version", "2"])
    run: Any = aggregate.prepare(options)
    result = run(spark)
    assert (result["version"], result["read_version"]) == (0, None)
    assert DeltaTable(output).version() == 25
    assert Lineage.of_table(LakehouseHook(), str(output), (str(orders),), result).outputs == (str(output),)
    repeated = aggregate.prepare(options)
    assert isinstance(repeated, dict)
    assert (repeated["version"], repeated["read_version"], repeated["done_before"]) == (None, 25, True)
    assert Lineage.of_table(LakehouseHook(), str(output), (), repeated).outputs == ()
    later = aggregate.arguments().parse_args([*command_line, "--app-id", "report", "--app-version", "3"])
    run = aggregate.prepare(later)
    result = run(spark)
    assert (result["version"], result["read_version"]) == (26, 25)


def test_a_load_names_the_commit_of_its_last_batch(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path)
    for number in range(2):
        shop.land(f"{number}.csv", f"{number},1.00,x")
    result_of = Load._result

    def after_another(load: Load, files: Any) -> Any:
        write_deltalake(shop.table, DeltaTable(shop.table).to_pyarrow_table().slice(0, 1), mode="append")
        return result_of(load, files)

    monkeypatch.setattr(Load, "_result", after_another)
    done = Load(shop.source()).run(spark)
    assert done.version == done.batches[-1]["version"]
    assert DeltaTable(shop.table).version() == done.version + 1
