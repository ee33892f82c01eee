"""Compressed files, JSON arrays and ORC files give the rows that other readers find in them."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from lakehouse_lib.errors import InvalidArgumentError, SourceRefusedError
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.json import array as json_array
from lakehouse_lib.ingestion.sources.json.array import array_blocks
from lakehouse_lib.ingestion.sources.json.reader import read_json
from lakehouse_lib.ingestion.sources.orc import read_orc
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Field, Schema
from tests.landed_files import landed
from tests.spark_jobs.loading import Shop

ARRAY = SourceFormat("json_array")
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


def _zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": _zstd}
ROWS = [{"id": number, "price": "1.50", "note": f"row {number}"} for number in range(2000)]
CONTENTS = {
    "csv": "id,price,note\n" + "".join(f"{row['id']},{row['price']},{row['note']}\n" for row in ROWS),
    "json": "".join(json.dumps(row) + "\n" for row in ROWS),
    "json_array": json.dumps(ROWS, indent=1),
}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("kind", CONTENTS)
def test_compressed_files_are_loaded_and_truncated_ones_are_refused(tmp_path: Path, kind: str, suffix: str) -> None:
    shop = Shop(tmp_path)
    compress, content = COMPRESS[suffix], CONTENTS[kind].encode()
    half = len(content) // 2
    (shop.landing / f"a.{kind}{suffix}").write_bytes(compress(content[:half]) + compress(content[half:]))
    (shop.landing / f"b.{kind}{suffix}").write_bytes(compress(content)[:-9])
    (shop.landing / f"c.{kind}{suffix}").write_bytes(compress(content) + b"more")
    (shop.landing / f"d.{kind}{suffix}").write_bytes(content)
    result = Load(shop.source(format=SourceFormat(kind), files_per_batch=4)).run()
    assert sorted(result.refused) == [f"{name}.{kind}{suffix}" for name in "bcd"]
    assert all("cannot be read as" in reason for reason in result.refused.values())
    assert shop.ids() == list(range(2000))


@pytest.mark.parametrize("kind", CONTENTS)
def test_files_that_are_not_text_are_refused_by_their_format(tmp_path: Path, kind: str) -> None:
    shop = Shop(tmp_path)
    text = CONTENTS[kind].encode()
    contents = {"gz": gzip.compress(text), "bz2": bz2.compress(text), "zst": _zstd(text)}
    contents |= {"avro": b"Obj\x01\x04\x16avro.schema", "xlsx": b"PK\x03\x04\x14\0\x06\0"}
    for name, content in contents.items():
        (shop.landing / f"{name}.txt").write_bytes(content)
    (shop.landing / "text.txt").write_bytes(text)
    result = Load(shop.source(format=SourceFormat(kind), files_per_batch=9)).run()
    assert {name: reason.split(": it is ")[1].split(". ")[0] for name, reason in result.refused.items()} == {
        "gz.txt": "a gzip file without .gz",
        "bz2.txt": "a bzip2 file without .bz2",
        "zst.txt": "a zstd file without .zst",
        "avro.txt": "an Avro file",
        "xlsx.txt": "a zip archive, as Excel writes",
    }
    assert shop.ids() == list(range(2000))


TEXTS = st.text(st.sampled_from('a{}[],:"\\\n\té '), max_size=8)
VALUES = st.recursive(st.none() | st.integers(0, 99) | TEXTS, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
ELEMENTS = st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "note": VALUES}) | st.integers(0, 9), max_size=6)


def _element_lines(text: str) -> list[int]:
    """The line on which each element of an array starts."""
    decoder, place, lines = json.JSONDecoder(), text.index("[") + 1, []
    while True:
        place += len(text[place:]) - len(text[place:].lstrip(" \n\r\t,"))
        if text[place] == "]":
            return lines
        lines.append(text.count("\n", 0, place))
        _, place = decoder.raw_decode(text, place)


@given(
    ELEMENTS,
    st.sampled_from([None, 0, 2]),
    st.sampled_from([(",", ":"), (" ,\n", ": "), ("\r\n, ", ":")]),
    st.booleans(),
    st.integers(1, 30),
)
def test_the_elements_of_an_array_are_those_of_another_parser(
    elements: list[Any], indent: int | None, separators: tuple[str, str], ascii_only: bool, size: int
) -> None:
    text = json.dumps(elements, indent=indent, separators=separators, ensure_ascii=ascii_only)
    text = f" \n{text}\n "
    data, place = text.encode(), 0

    def read(most: int) -> bytes:
        nonlocal place
        piece = data[place : place + min(most, size)]
        place += len(piece)
        return piece

    lines, starts, before = [], [], 0
    for block in array_blocks(read):
        assert len(block.starts) == block.lines.count(b"\n")
        lines += block.lines.splitlines()
        starts += [before + int(start) for start in block.starts]
        before += block.line_count
    assert [json.loads(line) for line in lines] == elements
    assert starts == _element_lines(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[{"id": 1}, {"id": 2}', "the array is never closed"),
        ('[{"id": 1}, {"id": "2}]', "the array is never closed"),
        ('[{"id": 1},]', "an element is empty"),
        ('[, {"id": 1}]', "an element is empty"),
        ('[{"id": 1}] [', "text follows the end of the array"),
        ('{"id": 1}', r"the text does not begin with \["),
        ("", "the file is empty"),
        ('[{"ident": 1}]', "ident is not a column of the schema"),
    ],
)
def test_a_text_that_is_not_an_array_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(SourceRefusedError, match=rf"^\[\w+\] a\.json .*{reason}"):
        list(read_json(landed(tmp_path / "a.json"), ARRAY, SCHEMA))


def test_an_element_that_is_never_closed_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "LONGEST_ELEMENT", 1000)
    monkeypatch.setattr(json_array, "BLOCK_SIZE", 100)
    taken = 0

    def read(most: int) -> bytes:
        nonlocal taken
        taken += most
        return b"[" * most

    with pytest.raises(pa.ArrowInvalid, match="longer than 1000 bytes"):
        list(array_blocks(read))
    assert taken < 3000


def test_rejected_elements_have_their_line(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    text = '[\n\n{"id": 1,\n "price": 1},\n7, {"id":\n"x"},\n{"id": 3 "note": 1},\n{"id": 2, "note": "a\\nb"}]'
    (shop.landing / "a.json").write_text(text, encoding="utf-16")
    Load(shop.source(format=SourceFormat("json_array", encoding="utf-16"))).run()
    assert shop.ids() == [1, 2]
    rows = DeltaTable(str(shop.quarantine)).to_pyarrow_table().to_pylist()
    assert {(row["_line"], row["_column"], row["_reason"]) for row in rows} == {
        (5, None, "not a JSON object"),
        (5, "id", "not a valid long"),
        (7, None, "not valid JSON"),
    }


def test_orc_files_of_several_stripes(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    times = [dt.datetime(2026, 1, 1, 0, 0, number % 60) for number in range(20_000)]
    rows = pa.table(
        {
            "tags": [[str(number)] for number in range(20_000)],
            "id": pa.array(range(20_000), pa.int32()),
            "day": [dt.date(1500, 1, 1) + dt.timedelta(number) for number in range(20_000)],
            "at": pa.array(times, pa.timestamp("us")),
            "price": pa.array([None, 5] * 10_000, pa.decimal128(9, 2)),
        }
    )
    orc.write_table(rows, shop.landing / "a.orc", stripe_size=1 << 16, batch_size=1000)
    assert orc.ORCFile(shop.landing / "a.orc").nstripes > 1
    fields = [("id", "long"), ("day", "date"), ("at", "timestamp_ntz"), ("price", "decimal(15,2)")]
    schema = Schema([*(Field(name, kind) for name, kind in fields), Field.from_arrow(rows.schema.field("tags"))])
    Load(shop.source(format=SourceFormat("orc"), schema=schema)).run()
    loaded = DeltaTable(str(shop.table)).to_pyarrow_table().sort_by("id")
    assert loaded.to_pylist() == rows.select(loaded.column_names).to_pylist()


@pytest.mark.parametrize(
    ("column", "kind", "reason"),
    [
        (pa.array([1], pa.int64()), "integer", "a is long, expected integer"),
        (
            pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("us")),
            "timestamp",
            "a is timestamp_ntz, expected timestamp",
        ),
        (pa.array([dt.datetime(3000, 1, 1)], pa.timestamp("us")), "timestamp_ntz", "out of range"),
    ],
)
def test_orc_columns_that_do_not_fit_are_refused(tmp_path: Path, column: pa.Array, kind: str, reason: str) -> None:
    orc.write_table(pa.table({"a": column}), tmp_path / "a.orc")
    with pytest.raises(SourceRefusedError, match=reason):
        list(read_orc(landed(tmp_path / "a.orc"), Schema([Field("a", kind)]).to_arrow()))


def test_a_truncated_orc_file_is_refused(tmp_path: Path) -> None:
    orc.write_table(pa.table({"id": range(9), "note": ["x"] * 9}), tmp_path / "b.orc")
    (tmp_path / "a.orc").write_bytes((tmp_path / "b.orc").read_bytes()[:-5])
    with pytest.raises(SourceRefusedError, match=r"a\.orc cannot be read as ORC"):
        list(read_orc(landed(tmp_path / "a.orc"), SCHEMA))


@pytest.mark.parametrize("kind", ["avro", "xml"])
def test_other_formats_are_refused_by_name(kind: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"format is '{kind}'; expected one of csv, json") as caught:
        SourceFormat(kind)
    assert caught.value.code == "DELTA_INVALID_SOURCE"
