"""Arrays built from buffers equal the arrays that pyarrow builds, and opening a table does not import pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.arrow import values as arrow_values
from lakehouse_lib.protocol.actions import DELETION_VECTOR, STRING_MAP

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
INTEGERS = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
}
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=5),
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    STRING_MAP: st.dictionaries(TEXT, st.none() | TEXT, max_size=3),
    DELETION_VECTOR: st.fixed_dictionaries(
        {},
        optional={
            field.name: st.none() | (TEXT if field.type == pa.string() else INTEGERS[field.type])
            for field in DELETION_VECTOR
        },
    ),
    **INTEGERS,
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_columns_are_those_of_pyarrow(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=20))
    plain = [list(value.items()) if value is not None else None for value in values] if kind == STRING_MAP else values
    result = arrow_values.column(values, kind)
    result.validate(full=True)
    assert result.equals(pa.array(plain, kind))
    assert result.null_count == values.count(None)


@pytest.mark.parametrize(("kind", "value"), [(pa.int32(), 2**31), (pa.int64(), -(2**63) - 1), (pa.uint16(), -1)])
def test_a_number_that_does_not_fit_is_refused(kind: pa.DataType, value: int) -> None:
    with pytest.raises(OverflowError):
        arrow_values.column([value], kind)


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        arrow_values.strings(["\ud800"])


def test_literals_and_nulls() -> None:
    assert arrow_values.literal("a", pa.string()).equals(pa.scalar("a"))
    assert arrow_values.null_scalar(pa.date32()).equals(pa.scalar(None, pa.date32()))


@given(st.lists(st.none() | st.booleans(), max_size=40), st.integers(0, 10), st.integers(0, 3))
def test_flags_are_restored_from_any_slice(values: list[bool | None], start: int, chunks: int) -> None:
    column = pa.array(values, pa.bool_()).slice(start)
    flags = [bool(value) for value in values[start:]]
    assert arrow_values.flags_of(column).tolist() == flags
    assert arrow_values.flags_of(pa.chunked_array([column] * chunks, pa.bool_())).tolist() == flags * chunks
    assert arrow_values.bools(flags).to_pylist() == flags


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20), st.integers(0, 5))
def test_numbers_are_restored_from_any_slice(values: list[int], start: int) -> None:
    column = pa.array(values, pa.int32()).slice(start)
    assert arrow_values.numbers_of(column, np.int32).tolist() == values[start:]
    assert arrow_values.int64s(values).to_pylist() == values


OPENED = """
import sys
from lakehouse_lib import DeltaTable
table = DeltaTable(sys.argv[1])
table.file_uris(), table.files(), table.get_add_actions(flatten=True), table.update_incremental()
table.history(), table.metadata(), table.detail()
print("pandas" in sys.modules)
"""


def test_opening_and_listing_imports_no_pandas(tmp_path: Path) -> None:
    from lakehouse_lib import DeltaTable, write_deltalake

    at = pa.array([0, 1, 2], pa.timestamp("us", "UTC"))
    rows = pa.table({"day": ["a", "b", "c%d"], "id": [1, 2, 3], "at": at})
    for _ in range(3):
        write_deltalake(tmp_path / "t", rows, mode="append", partition_by=["day"])
    table = DeltaTable(tmp_path / "t")
    table.create_checkpoint()
    table.delete("id = 1")
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(tmp_path / "t")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
