"""A load into a table with computed columns that its files do not have."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse_lib import DeltaTable, Field, Schema
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat


def test_a_load_computes_them(tmp_path: Path, spark: SparkSession) -> None:
    declared = [Field("id", "long"), Field("at", "timestamp_ntz")]
    day = Field("day", "date", False, {"delta.generationExpression": "CAST(at AS DATE)"})
    state = Field("state", "string", metadata={"CURRENT_DEFAULT": "'new'"})
    DeltaTable.create(tmp_path / "table", Schema([*declared, day, state]), partition_by=["day"])
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.csv").write_text("id,at\n1,2026-01-31 10:00:00\n")
    source = Source(
        str(tmp_path / "table"),
        tmp_path / "landing",
        "shop",
        SourceFormat("csv"),
        Schema(declared),
        None,
        str(tmp_path / "quarantine"),
    )
    Load(source).run(spark)
    rows = DeltaTable(tmp_path / "table").to_pyarrow_table(columns=["id", "day", "state"]).to_pylist()
    assert [(row["id"], str(row["day"]), row["state"]) for row in rows] == [(1, "2026-01-31", "new")]
