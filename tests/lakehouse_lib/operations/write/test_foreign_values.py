"""Frames with names or values that a table cannot store are refused before a write; unusual values are stored."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import InvalidSchemaError, SchemaMismatchError

_BAD = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
_BAD_TEXT = {
    "text": _BAD,
    "large": _BAD.cast(pa.large_string()),
    "view": _BAD.cast(pa.string_view()),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1]), _BAD),
    "dictionary of views": pa.DictionaryArray.from_arrays(pa.array([0, 1]), _BAD.cast(pa.string_view())),
    "struct": pa.StructArray.from_arrays([_BAD], ["x"]),
    "list": pa.ListArray.from_arrays([0, 1, 2], _BAD),
    "key": pa.MapArray.from_arrays([0, 1, 2], _BAD, pa.array([1, 2])),
    "value": pa.MapArray.from_arrays([0, 1, 2], pa.array(["a", "b"]), _BAD),
}


@pytest.mark.parametrize("form", _BAD_TEXT)
def test_text_that_is_not_utf8_is_refused(tmp_path: Path, form: str) -> None:
    with pytest.raises(SchemaMismatchError, match=r"\] v has values that are not valid .*Invalid UTF8"):
        write_deltalake(tmp_path / "t", pa.table({"id": [1, 2], "v": _BAD_TEXT[form]}))
    assert list(tmp_path.rglob("*.parquet")) == list(tmp_path.rglob("*.json")) == []


_NUL = "a\0b"
_NAMED = {
    "table": lambda: pa.table({_NUL: [1]}),
    "two": lambda: pa.table({"a\0b": [1], "a\0c": [1]}),
    "batch": lambda: pa.record_batch({_NUL: [1]}),
    "batches": lambda: [pa.record_batch({_NUL: [1]})],
    "member": lambda: pa.table({"s": [{_NUL: 1}]}),
    "pandas": lambda: pd.DataFrame({_NUL: [1]}),
    # Polars ends the process if such a frame is exported by Arrow's C interface.
    "Polars": lambda: pl.DataFrame({_NUL: [1]}),
    "Polars, lazy": lambda: pl.LazyFrame({_NUL: [1]}),
    "Polars, a member": lambda: pl.DataFrame({"s": [[{"m": {_NUL: 1}}]]}),
}


@pytest.mark.parametrize("form", _NAMED)
def test_a_name_with_nul_is_refused(tmp_path: Path, form: str) -> None:
    with pytest.raises(InvalidSchemaError, match=r"a\\x00b"):
        write_deltalake(tmp_path / "t", _NAMED[form]())
    assert not (tmp_path / "t").exists()


def test_a_new_column_with_nul_is_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": [1]}))
    with pytest.raises(InvalidSchemaError, match=r"a\\x00b"):
        write_deltalake(tmp_path / "t", pa.table({"a": [1], _NUL: [2]}), mode="append", schema_mode="merge")
    with pytest.raises(InvalidSchemaError, match=r"a\\x00b"):
        DeltaTable.create(tmp_path / "u", pa.schema([(_NUL, pa.int64())]))


_VOID = st.recursive(
    st.just(pa.null()),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 2)),
        inner.map(lambda kind: pa.map_(pa.date32(), kind)),
        inner.map(lambda kind: pa.struct([("x", kind), ("y", pa.int8())])),
    ),
    max_leaves=3,
).filter(lambda kind: kind != pa.null())


def _values(kind: pa.DataType) -> st.SearchStrategy[object]:
    if pa.types.is_null(kind):
        return st.none()
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({"x": _values(kind.field(0).type), "y": st.none() | st.just(1)})
    if pa.types.is_map(kind):
        return st.none() | st.dictionaries(st.integers(0, 3), _values(kind.item_type), max_size=3).map(
            lambda mapping: list(mapping.items())
        )
    size = {"min_size": 2, "max_size": 2} if pa.types.is_fixed_size_list(kind) else {"max_size": 3}
    return st.none() | st.lists(_values(kind.value_type), **size)


@given(st.data())
@settings(max_examples=settings.default.max_examples // 3)
def test_lists_and_maps_of_nulls(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    kind = data.draw(_VOID)
    values = data.draw(st.lists(_values(kind), min_size=1, max_size=7))
    column = pa.array(values, kind).slice(data.draw(st.integers(0, len(values) - 1)))
    middle = data.draw(st.integers(0, len(column)))
    partitions = data.draw(st.lists(st.integers(0, 2), min_size=len(column), max_size=len(column)))
    rows = pa.table(
        {
            "id": range(len(column)),
            "p": pa.array(partitions, pa.int64()),
            "v": pa.chunked_array([column.slice(0, middle), column.slice(middle)]),
        }
    )
    uri = tmp_path_factory.mktemp("void") / "t"
    write_deltalake(uri, rows, partition_by=data.draw(st.sampled_from([None, "p"])))
    table = DeltaTable(uri)
    assert table.to_pyarrow_table().sort_by("id")["v"].to_pylist() == rows["v"].to_pylist()
    table.optimize.compact()
    table.delete("id = 0")
    assert table.to_pyarrow_table().sort_by("id")["v"].to_pylist() == rows["v"].to_pylist()[1:]
