from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.sources.blocks import TypedBlock
from lakehouse_lib.ingestion.sources.parquet import read_parquet
from tests.landed_files import landed

NOON = dt.datetime(2020, 1, 1, 12)
UTC = pa.timestamp("us", "UTC")


def struct(**members: pa.DataType) -> pa.DataType:
    return pa.struct(list(members.items()))


def checks_of(block: TypedBlock) -> list[tuple[str, str, Any]]:
    """The checks of all columns of a block."""
    return [*block.checks, *(check for nested in block.nested.values() for check in nested.checks)]


def loaded(folder: Path, values: pa.Array, expected: pa.DataType, **options: Any) -> list[Any]:
    pq.write_table(pa.table({"a": values}), folder / "a.parquet", **options)
    blocks = [convert() for convert in read_parquet(landed(folder / "a.parquet"), pa.schema([("a", expected)]))]
    assert not any(wrong.any() for block in blocks for _, _, wrong in checks_of(block))
    return [value for block in blocks for value in block.columns[0].to_pylist()]


@pytest.mark.parametrize(
    ("values", "expected", "said"),
    [
        (pa.array([{"x": 1, "email": "a@b"}]), struct(x=pa.int64()), "a.email is not a column of the schema"),
        (pa.array([{"X": 1}]), struct(x=pa.int64()), "a.X is not a column of the schema"),
        (
            pa.array([{"y": 1}]),
            pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int64())]),
            "a.x is missing, expected long",
        ),
        (pa.array([{"x": 5}]), struct(x=pa.bool_()), "a.x is long, expected boolean"),
        (pa.array([{"x": 12}]), struct(x=pa.string()), "a.x is long, expected string"),
        (pa.array([{"x": NOON}]), struct(x=UTC), "a.x is timestamp_ntz, expected timestamp"),
        (pa.array([{"x": NOON}]), struct(x=pa.date32()), "a.x is timestamp_ntz, expected date"),
        (
            pa.array([[{"x": [1.5]}]]),
            pa.list_(struct(x=pa.list_(pa.float32()))),
            "a.element.x.element is double, expected float",
        ),
        (
            pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64())),
            pa.map_(pa.string(), pa.int64()),
            "a.key is long, expected str",
        ),
        (
            pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64())),
            pa.map_(pa.int64(), pa.int32()),
            "a.value is long, expected in",
        ),
        (pa.array([[1]]), struct(x=pa.int64()), "a is list"),
    ],
)
def test_nested_values_that_do_not_fit_are_refused(
    tmp_path: Path, values: pa.Array, expected: pa.DataType, said: str
) -> None:
    with pytest.raises(SourceRefusedError) as refused:
        loaded(tmp_path, values, expected)
    assert f"a.parquet does not fit the schema: {said}" in str(refused.value)


def test_nested_types_may_be_narrower_or_lack_or_reorder_members(tmp_path: Path) -> None:
    stored = pa.large_list(struct(z=pa.int32(), x=pa.dictionary(pa.int32(), pa.string())))
    expected = pa.list_(struct(x=pa.string(), y=UTC, z=pa.int64()))
    assert loaded(tmp_path, pa.array([[{"z": 1, "x": "one"}], None], stored), expected) == [
        [{"x": "one", "y": None, "z": 1}],
        None,
    ]
    pairs = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int16()))
    assert loaded(tmp_path, pairs, pa.map_(pa.string(), pa.int64())) == [[("k", 1)]]


INT96 = {"use_deprecated_int96_timestamps": True}


@pytest.mark.parametrize("options", [INT96, INT96 | {"store_schema": False}])
def test_int96_is_a_timestamp_at_any_depth(tmp_path: Path, options: dict[str, Any]) -> None:
    """Spark writes INT96 by default."""
    moment = NOON.replace(tzinfo=dt.UTC)
    assert loaded(tmp_path, pa.array([moment, None], UTC), UTC, **options) == [moment, None]
    deep = pa.list_(struct(n=pa.int64(), at=UTC))
    value = [{"n": 1, "at": moment}]
    assert loaded(tmp_path, pa.array([value], deep), deep, **options) == [value]
    for values, expected, path in (
        (pa.array([moment], UTC), pa.timestamp("us"), "a"),
        (pa.array([value], deep), pa.list_(struct(n=pa.int64(), at=pa.timestamp("us"))), "a.element.at"),
    ):
        with pytest.raises(SourceRefusedError, match=f"{path} is timestamp, expected timestamp_ntz"):
            loaded(tmp_path, values, expected, **options)


@pytest.mark.parametrize(("precision", "number"), [(4, 12_345), (38, 15 * 10**37)])
def test_a_row_with_too_many_decimal_digits_is_rejected(tmp_path: Path, precision: int, number: int) -> None:
    kind = pa.decimal128(precision, 0)
    data = b"".join(value.to_bytes(16, "little") for value in (5, number, 7))
    values = pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(data)])
    pq.write_table(pa.table({"a": values}), tmp_path / "a.parquet")
    block = next(read_parquet(landed(tmp_path / "a.parquet"), pa.schema([("a", kind)])))()
    ((_, reason, wrong),) = block.checks
    assert (reason, wrong.tolist()) == (f"not a valid decimal({precision},0)", [False, True, False])
    assert block.columns[0].to_pylist() == [5, None, 7]
    assert block.texts[0].take(pa.array([1])).to_pylist() == [str(number)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_a_row_with_text_that_is_not_utf8_is_rejected(tmp_path: Path, kind: pa.DataType) -> None:
    texts = pa.array([b"a", b"\xffb", None, b"c"]).view(pa.string())
    inner = pa.ListArray.from_arrays([0, 1, 2, 3, 4], texts)
    pq.write_table(pa.table({"id": range(4), "s": texts.cast(kind), "l": inner}), tmp_path / "a.parquet")
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.string()))])
    block = next(read_parquet(landed(tmp_path / "a.parquet"), schema))()
    assert {name: (reason, wrong.tolist()) for name, reason, wrong in checks_of(block)} == {
        "id": ("not a valid long", [False] * 4),
        "s": ("not valid utf-8 text", [False, True, False, False]),
        "l": ("not a valid list<item: string>", [False, True, False, False]),
    }
    assert [column.to_pylist() for column in block.columns[1:]] == [
        ["a", None, None, "c"],
        [["a"], None, [None], ["c"]],
    ]
    assert [column.take(pa.array([1, 3])).to_pylist() for column in block.texts] == [
        ["1", "3"],
        ["\ufffdb", "c"],
        [None, "['c']"],
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_row_with_dictionary_text_that_is_not_utf8_is_rejected(tmp_path: Path, kind: pa.DataType) -> None:
    values = pa.array([b"a", b"\xffb"]).view(pa.string()).cast(kind)
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int32()), values)
    offsets = [0, 1, 2, 3, 4]
    columns = {
        "s": coded,
        "l": pa.ListArray.from_arrays(offsets, coded),
        "r": pa.StructArray.from_arrays([coded], ["x"]),
        "m": pa.MapArray.from_arrays(offsets, pa.array(["k"] * 4), coded),
        "d": pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays([coded], ["x"])),
    }
    text = pa.string()
    deep = [pa.list_(text), struct(x=text), pa.map_(text, text), pa.list_(struct(x=text))]
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    schema = pa.schema(list(zip(columns, [text, *deep], strict=True)))
    block = next(read_parquet(landed(tmp_path / "a.parquet"), schema))()
    assert [name for name, _, _ in checks_of(block)] == list(columns)
    assert all(wrong.tolist() == [False, True, False, False] for _, _, wrong in checks_of(block))
    assert [column.to_pylist()[::3] for column in block.columns] == [
        ["a", "a"],
        [["a"], ["a"]],
        [{"x": "a"}, {"x": "a"}],
        [[("k", "a")], [("k", "a")]],
        [[{"x": "a"}], [{"x": "a"}]],
    ]
