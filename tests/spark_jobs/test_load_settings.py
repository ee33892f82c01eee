"""A load gives the same rows with every setting of the Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse_lib import DeltaTable as OurTable
from lakehouse_lib.errors import StoreError
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.spark_judge import SparkJudge
from lakehouse_lib.schema import Field, Schema
from tests.spark_jobs.loading import SCHEMA, UNIQUE_IDS, Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_days_of_before_1582_stay_the_same_days(spark: SparkSession, shop: Shop) -> None:
    schema = Schema([Field("id", "long"), Field("day", "date"), Field("moment", "timestamp")])
    shop.land("a.csv", "1,1500-01-01,1500-01-01T00:00:00Z", header="id,day,moment")
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY")
    Load(shop.source(schema=schema)).run(session)
    (row,) = DeltaTable(str(shop.table)).to_pyarrow_table().to_pylist()
    assert (str(row["day"]), str(row["moment"])) == ("1500-01-01", "1500-01-01 00:00:00+00:00")


@pytest.mark.slow
def test_staged_rows_that_are_gone_are_an_error(
    spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.options = {"suite": {"name": "s", "expectations": [UNIQUE_IDS]}}
    shop.land("a.csv", "1,1.50,x")
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")

    def judged(batch: SparkJudge, *arguments: Any) -> Any:
        verdict = judge(batch, *arguments)
        for staged in shop.staged():
            staged.unlink()
        return verdict

    judge = SparkJudge.judge
    monkeypatch.setattr(SparkJudge, "judge", judged)
    with pytest.raises(StoreError, match="does not exist"):
        Load(shop.source()).run(session)
    monkeypatch.undo()
    Load(shop.source()).run(session)
    assert shop.ids() == [1]


@pytest.mark.parametrize(("size", "files"), [(None, 1), ("1kb", 2)])
def test_a_batch_is_written_in_files_as_large_as_the_table_says(
    spark: SparkSession, shop: Shop, size: str | None, files: int
) -> None:
    properties = {} if size is None else {"delta.targetFileSize": size}
    OurTable.create(shop.table, SCHEMA.to_arrow(), configuration=properties)
    for number in range(4):
        shop.land(f"{number}.csv", *(f"{number}{row:03},1.50,{'x' * row}" for row in range(200)))
    session = spark.newSession()
    session.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))  # one task for each staged file
    Load(shop.source(files_per_batch=4)).run(session)
    assert len(DeltaTable(str(shop.table)).file_uris()) == files
    assert len(shop.ids()) == 800
