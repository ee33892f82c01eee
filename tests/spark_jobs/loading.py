"""A small source to load, and the rows that other readers find in its tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakehouse_lib.ingestion.batches import batch
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.load_result import LoadResult
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Field, Schema

SCHEMA = Schema([Field("id", "long", nullable=False), Field("price", "decimal(15,2)"), Field("note", "string")])
PRICE_RULE = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "price", "min_value": 0},
    "meta": {"rule_id": "price not negative"},
}
#: A rule that only Great Expectations judges.
UNIQUE_IDS = {
    "type": "expect_column_values_to_be_unique",
    "kwargs": {"column": "id"},
    "meta": {"rule_id": "id unique"},
}


@dataclass
class Shop:
    """A landing folder, a table and its quarantine, below one folder."""

    folder: Path
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.landing.mkdir(parents=True, exist_ok=True)

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    @property
    def table(self) -> Path:
        return self.folder / "sales"

    @property
    def quarantine(self) -> Path:
        return self.folder / "sales_quarantine"

    def land(self, name: str, *rows: str, header: str = "id,price,note") -> Path:
        path = self.landing / name
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    def source(self, **options: Any) -> Source:
        source = Source(
            str(self.table), str(self.landing), "erp", SourceFormat("csv"), SCHEMA, None, str(self.quarantine)
        )
        return replace(source, **self.options, **options)

    def command_line(self, *more: str) -> list[str]:
        schema = self.folder / "schema.json"
        schema.write_text(SCHEMA.to_json())
        return [
            *("--table", str(self.table), "--landing", str(self.landing), "--source", "erp", "--format", "csv"),
            *("--schema", str(schema), "--quarantine", str(self.quarantine), *more),
        ]

    def suite(self, *rules: dict[str, Any]) -> Path:
        path = self.folder / "suite.json"
        path.write_text(json.dumps({"name": "sales", "expectations": list(rules)}))
        return path

    def run_killed_before_commit(self) -> None:
        """Run a load that ends before its batch is committed, as if its process were killed."""

        def kill(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch, "commit_once", kill)
            with pytest.raises(KeyboardInterrupt):
                Load(self.source()).run()

    def ids(self) -> list[int]:
        """The ids in the table, as delta-rs reads it."""
        return sorted(DeltaTable(str(self.table)).to_pyarrow_table()["id"].to_pylist())

    def quarantined(self) -> list[tuple[str, int, str | None, str]]:
        rows = DeltaTable(str(self.quarantine)).to_pyarrow_table().to_pylist()
        return sorted((row["_file"], row["_line"], row["_column"], row["_reason"]) for row in rows)

    def transaction(self) -> int | None:
        return DeltaTable(str(self.table)).transaction_version("erp")

    def staged(self) -> list[Path]:
        return list((self.table / "_ingest").rglob("*.parquet"))


def load(spark: SparkSession, shop: Shop, **options: Any) -> LoadResult:
    return Load(shop.source(**options)).run(spark)
