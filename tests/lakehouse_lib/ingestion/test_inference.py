"""The schema and the suite that are inferred from files fit these files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from lakehouse_lib.catalogue import INGEST
from lakehouse_lib.errors import InvalidArgumentError, LandingError, SourceRefusedError
from lakehouse_lib.ingestion.inference.column import InferredColumn
from lakehouse_lib.ingestion.inference.infer import Inferred, infer
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.casts import from_text
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from tests.spark_jobs.loading import Shop

DEFAULTS: dict[str, Any] = {parameter.name: parameter.default for parameter in INGEST.parameters}


def inferred(location: Path, **values: Any) -> Inferred:
    return infer(str(location), {**DEFAULTS, **values})


def types(result: Inferred) -> dict[str, str]:
    return {field.name: str(field.type) for field in result.schema.fields}


KINDS = {
    "id": ("long", ["1", "-20", "0"]),
    "code": ("string", ["0123", "4567", "8"]),
    "phone": ("string", ["+49123", "5", "6"]),
    "price": ("decimal(18,2)", ["1.5", "20", "-3.25"]),
    "share": ("double", ["0.12345678", "1", "3e-7"]),
    "big": ("string", ["18446744073709551616123456789012345678901", "x", "1"]),
    "flag": ("boolean", ["true", "false", "true"]),
    "bit": ("long", ["1", "0", "1"]),
    "day": ("date", ["2026-01-31", "1999-12-01", "0001-01-01"]),
    "at": ("timestamp", ["2026-01-31T10:00:00Z", "2026-01-31 10:00:00", "2026-01-31"]),
    "note": ("string", ["a, b", "", "x\ny"]),
}


def test_each_type_and_a_load_of_the_same_files(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    lines = [",".join(f'"{texts[row]}"' for _, texts in KINDS.values()) for row in range(3)]
    shop.land("a.csv", *lines, "," * (len(KINDS) - 1) + "z", header=",".join(KINDS))
    shop.land("b.csv", *lines, header=",".join(KINDS))
    result = inferred(shop.landing)
    assert types(result) == {name: kind for name, (kind, _) in KINDS.items()}
    assert (result.files, result.rows, result.format.kind) == (("a.csv", "b.csv"), 7, "csv")
    assert result.notes == ("at has times without a zone, which a load reads as UTC",)
    source = replace(shop.source(), schema=result.schema, suite=result.suite, format=result.format, files_per_batch=2)
    (batch,) = Load(source).run().batches
    assert (batch["rows_loaded"], batch["rows_quarantined"]) == (7, 0)


@given(
    st.lists(st.lists(st.sampled_from(["", "1", "007", "1.50", "1e3", "nan", "true", "2026-01-01", "x"]), min_size=1))
)
def test_a_load_reads_every_text_as_the_inferred_type(blocks: list[list[str]]) -> None:
    column = InferredColumn("a", SourceFormat("csv"))
    for block in blocks:
        column.add(pa.array([text or None for text in block], pa.string()))
    for block in blocks:
        typed, wrong = from_text(pa.array([text or None for text in block], pa.string()), column.type)
        assert not wrong.any()
        assert typed.null_count == block.count("")


def test_rules_about_values(tmp_path: Path) -> None:
    rows = [f"{number},{'open' if number % 2 else 'closed'},{-number}" for number in range(100)]
    (tmp_path / "a.csv").write_text("\n".join(["id,state,balance", *rows]))
    rules = {rule["meta"]["rule_id"]: rule["kwargs"] for rule in inferred(tmp_path / "a.csv").suite["expectations"]}
    assert list(rules) == [
        *("has rows", "id is not null", "id is not negative", "state is not null", "state is known"),
        "balance is not null",
    ]
    assert rules["state is known"] == {"column": "state", "value_set": ["closed", "open"]}


def test_json_lines_and_arrays(tmp_path: Path) -> None:
    objects = [{"id": 1, "note": None}, {"id": 2, "price": 1.5}, {"id": 3, "tags": [1]}]
    expected = {"id": "long", "note": "string", "price": "decimal(18,2)", "tags": "string"}
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in objects))
    (tmp_path / "b.json").write_text(json.dumps(objects, indent=2))
    for name, kind in (("a.jsonl", "json"), ("b.json", "json_array")):
        result = inferred(tmp_path / name)
        assert (result.format.kind, types(result), result.rows) == (kind, expected, 3)
        assert result.notes == (
            "tags has nested values, which need a struct, an array or a map in the schema",
            "note has no value, so its type is unknown",
        )


def test_typed_files_and_those_that_differ(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1], pa.int32()), "tags": [["a"]]})
    orc.write_table(rows, tmp_path / "a.orc")
    pq.write_table(rows, tmp_path / "a.parquet")
    pq.write_table(rows.append_column("more", [["x"]]), tmp_path / "b.parquet")
    assert types(inferred(tmp_path / "a.orc")) == {"id": "integer", "tags": "array<string>"}
    result = inferred(tmp_path, pattern="*.parquet")
    assert types(result) == {"id": "integer", "tags": "array<string>"}
    assert (result.rows, result.notes) == (2, ("b.parquet has other columns than a.parquet",))
    moments = pa.table({"at": pa.array([0], pa.timestamp("us", "UTC"))})
    pq.write_table(moments, tmp_path / "c.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    assert types(inferred(tmp_path / "c.parquet")) == {"at": "timestamp"}  # as a load reads INT96, which Spark writes
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    with pytest.raises(SourceRefusedError, match=r"d\.parquet cannot be read as Parquet"):
        inferred(tmp_path / "d.parquet")


@pytest.mark.parametrize("content", ["", "\n\n", "{}\n", "nope\n", "[]", "[1]"])
def test_json_without_a_key_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(SourceRefusedError, match=r"a\.json have no key"):
        inferred(tmp_path / "a.json")


def test_one_file_by_its_path_and_its_uri(tmp_path: Path) -> None:
    for name in ("a b.csv", "c.csv"):
        (tmp_path / name).write_text("id\n1\n")
    for location in (str(tmp_path / "a b.csv"), f"file://{tmp_path}/a%20b.csv"):
        assert infer(location, DEFAULTS).files == ("a b.csv",)


def test_files_without_an_inferable_schema(tmp_path: Path) -> None:
    with pytest.raises(LandingError, match="has no files"):
        inferred(tmp_path)
    (tmp_path / "a.dat").write_text("id;name\n1;x\n")
    with pytest.raises(InvalidArgumentError, match=r"the file a\.dat has no known extension"):
        inferred(tmp_path)
    assert inferred(tmp_path, format="csv").notes == ("the only column is 'id;name'; is ',' the delimiter?",)
    assert list(types(inferred(tmp_path, format="csv", delimiter=";", no_header=True))) == ["column_1", "column_2"]
    (tmp_path / "b.dat").write_text("id;other\n1;x\n")
    with pytest.raises(SourceRefusedError, match=r"b\.dat does not fit the schema: name is missing"):
        inferred(tmp_path, format="csv", delimiter=";")
