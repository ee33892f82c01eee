"""Rows that violate a constraint of the table go to the quarantine, and the rest of their batch is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as Peer

from lakehouse_lib import ArrayType, DeltaTable, Field, Schema
from lakehouse_lib.errors import IngestError, MetadataChangedError, QualityError
from lakehouse_lib.ingestion.batches.batch import Batch
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from tests.char_table import SCHEMA as CHAR_SCHEMA

SCHEMA = Schema([Field("id", "long"), Field("price", "double")])
PRICE = "violates CHECK pos (price > 0)"


def source(path: Path, kind: str = "csv", schema: Schema = SCHEMA) -> Source:
    (path / "landing").mkdir(exist_ok=True)
    return Source(
        *(str(path / "table"), str(path / "landing"), "shop", SourceFormat(kind)), schema, None, str(path / "rejects")
    )


def create(path: Path, schema: Schema = SCHEMA, **constraints: str) -> None:
    table = DeltaTable.create(path / "table", schema)
    table.alter.add_constraint(constraints or {"pos": "price > 0"})


def ids(path: Path) -> list[int]:
    return sorted(Peer(path / "table").to_pyarrow_table()["id"].to_pylist())


def rejects(path: Path) -> list[dict[str, Any]]:
    return sorted(Peer(path / "rejects").to_pyarrow_table().to_pylist(), key=lambda row: row["_line"])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("csv", "id,price\n1,5\n2,-5\n3,\n4,x\n"),
        ("json", '{"id":0}\n{"id":1,"price":5}\n{"id":2,"price":-5}\n{"id":3}\n{"id":4,"price":"x"}\n'),
    ],
)
def test_rows_of_text_files(tmp_path: Path, kind: str, text: str) -> None:
    create(tmp_path, pos="price > 0", id="id > 0 OR price < 0")
    shop = source(tmp_path, kind)
    (tmp_path / "landing" / "a").write_text(text)
    (batch,) = Load(shop).run().batches
    assert (batch["rows_loaded"], ids(tmp_path)) == (1, [1])
    assert [
        (row["id"], row["price"], row["_column"], row["_reason"]) for row in rejects(tmp_path) if row["_line"] > 2
    ] == [
        ("2", "-5", "price", PRICE),
        ("3", None, "price", PRICE),
        ("4", "x", "price", "not a valid double"),
    ]
    if kind == "json":
        assert [fault["column"] for fault in rejects(tmp_path)[0]["_violations"]] == ["id", "price"]


def test_rows_with_a_text_longer_than_its_varchar(tmp_path: Path) -> None:
    """The schema file need not have the declared types. Texts inside lists and maps are checked by the write."""
    DeltaTable.create(tmp_path / "table", CHAR_SCHEMA)
    plain = Schema([Field(field.name, field.type) for field in CHAR_SCHEMA.fields])
    shop = source(tmp_path, "json", plain)
    (tmp_path / "landing" / "a").write_text(
        '{"id":1,"v":"abc","s":{"m":"xy"}}\n{"id":2,"v":"abcd"}\n{"id":3,"c":"abcde","s":{"m":"xyz"}}\n{"id":4}\n'
    )
    Load(shop).run()
    assert ids(tmp_path) == [1, 4]
    assert [[fault["reason"] for fault in row["_violations"]] for row in rejects(tmp_path)] == [
        ["violates VARCHAR(3) v"],
        ["violates CHAR(4) c", "violates VARCHAR(2) s.m"],
    ]
    (tmp_path / "landing" / "b").write_text('{"id":5,"a":["abc"]}\n')
    with pytest.raises(QualityError, match=r"CHAR\(2\) a\.element"):
        Load(shop).run()


def test_rows_of_parquet_files_with_nested_columns(tmp_path: Path) -> None:
    schema = Schema([*SCHEMA.fields, Field("tags", ArrayType("string", True))])
    create(tmp_path, schema)
    shop = source(tmp_path, "parquet", schema)
    rows = pa.table({"id": [1, 2], "price": [5.0, -5.0], "tags": [["a"], ["b"]]}, schema.to_arrow())
    pq.write_table(rows, tmp_path / "landing" / "a.parquet")
    Load(shop).run()
    assert ids(tmp_path) == [1]
    assert [(row["id"], row["price"], row["_reason"], row["_line"]) for row in rejects(tmp_path)] == [
        ("2", "-5", PRICE, 2)
    ]


def test_a_redo_rejects_the_same_rows_after_the_constraints_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path)
    shop = source(tmp_path)
    (tmp_path / "landing" / "a.csv").write_text("id,price\n1,5\n2,-5\n30,5\n")

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Batch, "_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            Load(shop).run()
    assert len(rejects(tmp_path)) == 1
    table = DeltaTable(tmp_path / "table")
    table.alter.drop_constraint("pos")
    Load(shop).run()
    assert (ids(tmp_path), [row["id"] for row in rejects(tmp_path)]) == ([1, 30], ["2"])


@pytest.mark.parametrize("way_out", ["drop the constraint", "give up"])
def test_a_constraint_that_is_added_after_the_decision_to_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way_out: str
) -> None:
    DeltaTable.create(tmp_path / "table", SCHEMA)
    shop = source(tmp_path)
    (tmp_path / "landing" / "a.csv").write_text("id,price\n1,5\n2,-5\n3,5\n")
    decide = Batch._decide_to_load

    def decided(batch: Batch, refused: Any) -> None:
        decide(batch, refused)
        DeltaTable(tmp_path / "table").alter.add_constraint({"pos": "price > 0"})

    with monkeypatch.context() as patch:
        patch.setattr(Batch, "_decide_to_load", decided)
        with pytest.raises(MetadataChangedError):
            Load(shop).run()
    outcome = "_ingest/shop/00000000000000000000.outcome.json"
    with pytest.raises(QualityError, match=f"so it stays unsettled. Drop a constraint .* delete {outcome} and give"):
        Load(shop).run()
    with pytest.raises(IngestError, match=f"If it cannot, and no run is alive, delete {outcome} and give"):
        Load(shop).give_up()
    if way_out == "drop the constraint":
        DeltaTable(tmp_path / "table").alter.drop_constraint("pos")
        Load(shop).run()
        assert ids(tmp_path) == [1, 2, 3]
    else:
        (tmp_path / "table" / outcome).unlink()
        load = Load(shop)
        load.give_up()
        load.run()
        assert (ids(tmp_path), [row["id"] for row in rejects(tmp_path)]) == ([1, 3], ["2"])


def test_a_batch_that_violates_a_rule_of_a_computed_column_is_given_up(tmp_path: Path) -> None:
    schema = Schema([*SCHEMA.fields, Field("state", "string", metadata={"CURRENT_DEFAULT": "'new'"})])
    create(tmp_path, schema, known="state = 'old' OR price > 0")
    shop = source(tmp_path)
    (tmp_path / "landing" / "a.csv").write_text("id,price\n1,5\n2,-5\n")
    with pytest.raises(QualityError, match=r"batch 0 \(a\.csv\) was not loaded: the data violates CHECK known"):
        Load(shop).run()
    (tmp_path / "landing" / "a.csv").write_text("id,price\n1,5\n2,6\n")
    Load(shop).run()
    assert ids(tmp_path) == [1, 2]
