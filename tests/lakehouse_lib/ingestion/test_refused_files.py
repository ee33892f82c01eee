"""Refused files: when a later run loads them, and when it does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.state import source_state
from lakehouse_lib.schema import Field, Schema
from tests.named_files import NamedFiles
from tests.spark_jobs.loading import Shop

NARROW = Schema([Field("id", "long")])
WIDE = Schema([Field("id", "long"), Field("price", "double")])


@pytest.mark.parametrize(
    ("schema", "evolution"),
    [(WIDE, "refuse"), (NARROW, "rescue"), (NARROW, "add_columns")],
    ids=lambda value: str(value),
)
def test_a_refused_file_is_loaded_after_its_source_was_corrected(
    tmp_path: Path, schema: Schema, evolution: str
) -> None:
    shop = Shop(tmp_path)
    shop.land("a.csv", "1,2.5", header="id,price")
    assert list(Load(shop.source(schema=NARROW)).run().refused) == ["a.csv"]
    nothing = Load(shop.source(schema=NARROW)).nothing_to_do()
    assert nothing is not None
    assert list(nothing.earlier_refusals) == ["a.csv"]
    corrected = shop.source(schema=schema, format=SourceFormat("csv", evolution=evolution))
    result = Load(corrected).run()
    assert (dict(result.refused), shop.ids()) == ({}, [1])
    assert Load(corrected).nothing_to_do() is not None


def test_a_file_that_a_new_definition_refuses_again_stays_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.land("a.csv", "1,2.5,x", header="id,price,more")
    for schema in (NARROW, WIDE):
        assert list(Load(shop.source(schema=schema)).run().refused) == ["a.csv"]
        nothing = Load(shop.source(schema=schema)).nothing_to_do()
        assert nothing is not None
        assert list(nothing.earlier_refusals) == ["a.csv"]


def test_a_refused_file_whose_columns_no_table_can_have_is_not_tried_by_each_run(tmp_path: Path) -> None:
    """The intent of its batch has its new column, and the table does not get this column."""
    source = Shop(tmp_path).source(schema=NARROW, format=SourceFormat("csv", evolution="add_columns"))
    (tmp_path / "landing/a.csv").write_text('id,more\n1,2\n3,"4')
    assert list(Load(source).run().refused) == ["a.csv"]
    assert Load(source).nothing_to_do() is not None


@pytest.mark.parametrize("files_per_batch", [1, 9])
def test_a_refused_file_is_not_tried_again_after_another_file_has_added_a_column(
    tmp_path: Path, files_per_batch: int
) -> None:
    shop = Shop(tmp_path)
    source = shop.source(
        schema=NARROW, format=SourceFormat("csv", evolution="add_columns"), files_per_batch=files_per_batch
    )
    refused = shop.land("a.csv", '1,"open', header="id,more")
    shop.land("b.csv", "2,2.5", header="id,price")
    assert list(Load(source).run().refused) == ["a.csv"]
    assert Load(source).nothing_to_do() is not None
    shop.land("c.csv", "3,5", header="id,units")
    result = Load(source).run()
    assert [batch["files"] for batch in result.batches] == [["c.csv"]]
    assert (dict(result.refused), list(result.earlier_refusals), shop.ids()) == ({}, ["a.csv"], [2, 3])
    refused.write_text("id,more\n1,closed\n")
    assert (dict(Load(source).run().refused), shop.ids()) == ({}, [1, 2, 3])


def test_a_refused_file_is_loaded_after_an_added_column_was_corrected_in_table_and_schema_file(tmp_path: Path) -> None:
    """The schema file decides: a change of the table alone does not cause another try."""
    shop = Shop(tmp_path)
    source = shop.source(schema=NARROW, format=SourceFormat("parquet", evolution="add_columns"))
    for number, units in enumerate([pa.int32(), pa.int64()]):
        data = {"id": pa.array([number], pa.int64()), "units": pa.array([5], units)}
        pq.write_table(pa.table(data), shop.landing / f"{number}")
        refused = Load(source).run().refused
    assert list(refused) == ["1"]
    alter = DeltaTable(str(shop.table)).alter
    alter.set_table_properties({"delta.enableTypeWidening": "true"})
    alter.change_column_type("units", "long")
    assert Load(source).nothing_to_do() is not None
    result = Load(replace(source, schema=Schema([*NARROW.fields, Field("units", "long")]))).run()
    assert (dict(result.refused), DeltaTable(str(shop.table)).to_pyarrow_table().num_rows) == ({}, 2)


def test_a_folded_refusal_has_its_definition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_state, "_MOST_BATCHES", 1)
    files = NamedFiles(tmp_path)
    files.land("a.csv", "x.csv")
    files.run()
    assert list(files.state()[0].look().refused) == ["x.csv"]
    files.source = replace(files.source, format=SourceFormat("csv", delimiter=";"))
    assert files.state()[0].look().new["name"].to_pylist() == ["x.csv"]


def test_a_refusal_of_a_segment_without_definitions_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_state, "_MOST_BATCHES", 1)
    files = NamedFiles(tmp_path)
    files.land("a.csv", "x.csv")
    files.run()
    (segment,) = (tmp_path / "table/_ingest/erp/settled").iterdir()
    pq.write_table(pq.read_table(segment).drop_columns(["definition"]), segment)
    files.run()
    state = files.state()[0]
    assert state.history.next_number == 2
    assert list(state.look().refused) == ["x.csv"]
