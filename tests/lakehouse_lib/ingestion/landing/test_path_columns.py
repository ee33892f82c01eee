"""Columns whose values are in the names of folders, in files of every format."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import orc

from lakehouse_lib.catalogue import INGEST
from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.ingestion.inference.infer import infer
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Field, Schema
from tests.spark_jobs.loading import Shop

SCHEMA = Schema([Field("day", "date"), Field("id", "long"), Field("shop", "string"), Field("n", "integer")])
FOLDERS = ["day=2026-01-31/shop=a%2Fb %C3%A9", "day=__HIVE_DEFAULT_PARTITION__/shop="]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, {"schema": SCHEMA, "pattern": "**/*", "files_per_batch": 9})


def write(path: Path, kind: str, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "csv":
        path.write_text(
            "".join(",".join(map(str, line)) + "\n" for line in [["id", "n"], *(row.values() for row in rows)])
        )
    elif kind == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "json_array":
        path.write_text(json.dumps(rows))
    else:
        table = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("n", pa.int32())]))
        (pq if kind == "parquet" else orc).write_table(table, path)


@pytest.mark.parametrize("kind", ["csv", "json", "json_array", "parquet", "orc"])
def test_the_folders_of_a_file_are_in_its_rows(shop: Shop, kind: str) -> None:
    for number, folder in enumerate(FOLDERS):
        write(shop.landing / folder / f"a.{kind}", kind, [{"id": number, "n": 7}, {"id": number + 10, "n": 8}])
    Load(shop.source(format=SourceFormat(kind, path_columns=("day", "shop")), partition_by=("day",))).run()
    rows = DeltaTable(str(shop.table)).to_pyarrow_table().sort_by("id").select(SCHEMA.names).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (dt.date(2026, 1, 31), 0, "a/b é", 7),
        (None, 1, "", 7),
        (dt.date(2026, 1, 31), 10, "a/b é", 8),
        (None, 11, "", 8),
    ]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_rejected_rows_have_them_too(shop: Shop, kind: str) -> None:
    write(shop.landing / FOLDERS[0] / "a", kind, [{"id": "x", "n": 7}, {"id": 1, "n": 5}])
    Load(shop.source(format=SourceFormat(kind, path_columns=("day", "shop")))).run()
    assert shop.ids() == [1]
    (row,) = DeltaTable(str(shop.quarantine)).to_pyarrow_table().to_pylist()
    assert (row["day"], row["id"], row["shop"], row["n"]) == ("2026-01-31", "x", "a/b é", "7")
    assert row["_line"] == (2 if kind == "csv" else 1)


def test_files_whose_folders_do_not_fit_are_refused_by_name(shop: Shop) -> None:
    (shop.landing / "shop=a").mkdir()
    for name, header in {
        "day=2026-02-31/shop=a/a.csv": "id,n",
        "shop=a/b.csv": "id,n",
        "day=2026-01-01/shop=a/c.csv": "id,n,shop",
        "day=2026-01-01/shop=a/d.csv": "id,n",
    }.items():
        (shop.landing / name).parent.mkdir(parents=True, exist_ok=True)
        (shop.landing / name).write_text(f"{header}\n1,1,x\n" if "shop" in header else f"{header}\n1,1\n")
    result = Load(shop.source(format=SourceFormat("csv", path_columns=("day", "shop")))).run()
    reasons = [reason.partition(". ")[0] for _, reason in sorted(result.refused.items())]
    assert reasons == [
        "day=2026-01-01/shop=a/c.csv does not fit the schema: shop is not a column of the schema",
        "day=2026-02-31/shop=a/a.csv has day=2026-02-31 in its path, which is not a valid date",
        "the path of shop=a/b.csv has no folder day=...",
    ]
    assert shop.ids() == [1]


def test_path_columns_that_the_schema_does_not_have(shop: Shop) -> None:
    with pytest.raises(InvalidSchemaError, match="the path columns are town"):
        Load(shop.source(format=SourceFormat("csv", path_columns=("town",))))
    with pytest.raises(InvalidSchemaError, match="expected some of the schema's"):
        Load(shop.source(format=SourceFormat("csv", path_columns=tuple(SCHEMA.names))))


def test_path_columns_are_inferred(shop: Shop) -> None:
    write(shop.landing / "day=2026-01-31/n=1/a.csv", "csv", [{"id": 1, "n": 7}])
    values = {**{each.name: each.default for each in INGEST.parameters}, "pattern": "**/*"}
    assert (
        infer(str(shop.landing), values).notes[0]
        == "day is in the names of folders; to load it, add it to --path-columns"
    )
    inferred = infer(str(shop.landing), {**values, "path_columns": ("day",)})
    assert [str(field) for field in inferred.schema.fields] == ["id: long", "n: long", "day: date"]
