"""Loads of files that are split over tasks: the same tables as of files that are not split."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import QualityError
from lakehouse_lib.ingestion.batches import batch as batch_module
from lakehouse_lib.ingestion.batches import files as batch_files
from lakehouse_lib.ingestion.batches import shares
from lakehouse_lib.ingestion.batches.batch import Batch
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources import file_head
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.file_task import FileTask, load_files
from lakehouse_lib.progress import Progress
from tests.peers import parquet_files
from tests.spark_jobs.loading import PRICE_RULE, Shop

FORMAT = SourceFormat("csv", quote="")
MOSTLY = {**PRICE_RULE, "kwargs": {"column": "price", "min_value": 0, "mostly": 0.9}, "meta": {"rule_id": "mostly"}}
NEW_KEYS = {
    "type": "expect_column_values_to_be_unique",
    "kwargs": {"column": "id"},
    "meta": {"rule_id": "new", "unique_in": "table"},
}


class Cluster(ArrowEngine):
    """An engine whose tasks do not count as threads of this process."""

    name = "cluster"

    def __init__(self) -> None:
        super().__init__(3)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> list[FileTask]:
    """Loads run on a cluster and split files of more than 200 bytes; has the file tasks that were run."""
    tasks: list[FileTask] = []

    def load(task: FileTask) -> Any:
        tasks.append(task)
        return load_files(task)

    monkeypatch.setattr(batch_module, "ArrowEngine", Cluster)
    monkeypatch.setattr(batch_files, "load_files", load)
    for module in (file_head, shares):
        monkeypatch.setattr(module, "HEAD_BYTES", 100)
    return tasks


def land(shop: Shop, name: str = "a.csv", *last: str) -> Path:
    """A file with valid rows, rows that break a rule, and rows that do not fit the schema."""
    rows = [f"{n % 60},{n - 2}.5,note {n}" if n % 17 else f"bad,{n},x" for n in range(70)]
    return shop.land(name, *rows[:20], "", *rows[20:50], "1,2", *rows[50:], *last)


def tables(shop: Shop) -> list[list[dict[str, Any]]]:
    return [
        sorted(DeltaTable(str(table)).to_pyarrow_table().to_pylist(), key=str)
        for table in (shop.table, shop.quarantine)
    ]


def source(shop: Shop, *rules: dict[str, Any], **options: Any) -> Any:
    suite = {"name": "s", "expectations": list(rules)} if rules else None
    return shop.source(format=FORMAT, suite=suite, files_per_batch=9, target_file_size=300, **options)


def orphans(shop: Shop) -> set[Path]:
    files = {file for table in (shop.table, shop.quarantine) for file in parquet_files(table)}
    return set(shop.folder.rglob("*.parquet")) - set(map(Path, files))


@pytest.mark.parametrize("rules", [(), (PRICE_RULE,), (PRICE_RULE, MOSTLY), (NEW_KEYS, PRICE_RULE)])
def test_a_split_file_gives_the_same_tables(tmp_path: Path, rules: tuple[Any, ...], request: Any) -> None:
    whole, split = Shop(tmp_path / "whole"), Shop(tmp_path / "split")
    for shop in (whole, split):
        land(shop)
        shop.land("b.csv", "900,1,x", "bad,1,x")
    expected = Load(source(whole, *rules)).run().batches
    tasks: list[FileTask] = request.getfixturevalue("cluster")
    assert Load(source(split, *rules)).run().batches == expected
    assert tables(split) == tables(whole)
    assert len(tables(split)[1]) > 5
    assert sorted(task.files[0].name for task in tasks if task.part is not None) == ["a.csv"] * 3
    assert split.staged() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pyarrow prints the record
def test_a_file_that_a_part_refuses_is_refused_as_a_whole(shop: Shop, cluster: list[FileTask]) -> None:
    path = land(shop, "a.csv")
    path.write_bytes(path.read_bytes() + b"1,\xff,x,too many\n")
    shop.land("b.csv", "900,1,x", "bad,1,x")
    result = Load(source(shop, PRICE_RULE, MOSTLY)).run()
    assert list(result.refused) == ["a.csv"]
    assert "Row #74" in result.refused["a.csv"]
    assert (shop.ids(), len(shop.quarantined())) == ([900], 1)
    assert result.batches[0]["rules_broken"] == {}
    assert len(cluster) == 4
    assert len(list(shop.folder.rglob("*.parquet"))) == 2


def test_a_split_file_that_changes_is_left_for_the_next_run(
    shop: Shop, cluster: list[FileTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = land(shop)

    def load(task: FileTask) -> Any:
        if task.part is not None and task.part.number == 2:
            os.utime(path, ns=(1, 1))
        return load_files(task)

    monkeypatch.setattr(batch_files, "load_files", load)
    result = Load(source(shop)).run()
    assert (list(result.waiting), list(result.batches)) == (["a.csv"], [])
    assert list(shop.folder.rglob("*.parquet")) == []


def test_a_batch_that_was_killed_is_repeated_with_other_parts(
    shop: Shop, cluster: list[FileTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Shop(shop.folder / "whole")
    for each in (shop, whole):
        land(each)
    with monkeypatch.context() as patch:

        def fail(*_: Any) -> Any:
            raise KeyboardInterrupt

        patch.setattr(Batch, "_commit", fail)
        with pytest.raises(KeyboardInterrupt):
            Load(source(shop, PRICE_RULE)).run()
    monkeypatch.setattr(Cluster, "name", "arrow")
    Load(source(shop, PRICE_RULE)).run()
    Load(source(whole, PRICE_RULE)).run()
    assert tables(shop) == tables(whole)
    assert [task.part is None for task in cluster].count(False) == 3


def test_a_rule_of_the_batch_leaves_no_file_of_a_part(shop: Shop, cluster: list[FileTask]) -> None:
    land(shop)
    rule = {
        "type": "expect_table_row_count_to_be_between",
        "kwargs": {"min_value": 1000},
        "meta": {"rule_id": "rows"},
    }
    with pytest.raises(QualityError, match="rows"):
        Load(source(shop, rule)).run()
    assert list(shop.folder.rglob("*.parquet")) == []
    assert cluster


@pytest.mark.usefixtures("cluster")
def test_progress_counts_a_split_file_once(shop: Shop) -> None:
    size = land(shop).stat().st_size
    reports: list[Progress] = []
    Load(source(shop)).run(on_progress=reports.append)
    assert {progress.done for progress in reports} == {0, 1}
    assert (reports[-1].done, reports[-1].bytes_done, reports[-1].rows) == (1, size, 71)
    assert len({progress.bytes_done for progress in reports}) == 4


def test_a_load_in_this_process_splits_no_file(shop: Shop, cluster: list[FileTask], monkeypatch: Any) -> None:
    monkeypatch.setattr(Cluster, "name", "arrow")
    land(shop)
    Load(source(shop)).run()
    assert [task.part for task in cluster] == [None]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)
