"""Text columns as dictionary arrays: which columns, and the rows before and after."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.arrow.repeated_text import concat_rows, with_dictionaries, without_dictionaries

STATES = ["open", None, "paid", ""] * 100


def encoded_columns(rows: pa.Table) -> list[str]:
    return [field.name for field in rows.schema if pa.types.is_dictionary(field.type)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (STATES, ["s"]),
        ([None] * 400, ["s"]),
        ([str(number) for number in range(400)], []),
        (["x" * 3000, "y" * 3000] * 200, []),
        ([], []),
    ],
    ids=["few", "nulls", "many", "long", "none"],
)
def test_columns_with_few_short_texts_are_encoded(texts: list[str | None], expected: list[str]) -> None:
    rows = pa.table({"s": pa.array(texts, pa.string()), "n": range(len(texts)), "key": pa.array(texts, pa.string())})
    encoded = with_dictionaries(rows, except_columns={"key"})
    assert encoded_columns(encoded) == expected
    assert without_dictionaries(encoded).equals(rows)


def test_a_column_that_only_looks_repeated_stays_text() -> None:
    texts = ["a"] * 100_000
    texts[1::300] = [str(number) for number in range(1, 100_000, 300)]
    rows = pa.table({"s": texts})
    assert with_dictionaries(rows) is rows


def test_text_in_one_table_is_text_in_the_result() -> None:
    plain = pa.table({"s": STATES, "t": STATES})
    half = with_dictionaries(plain, except_columns={"t"})
    assert encoded_columns(concat_rows([half, half])) == ["s"]
    rows = concat_rows([half, plain, with_dictionaries(plain)])
    assert rows.schema == plain.schema
    assert rows.equals(pa.concat_tables([plain] * 3))


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1), min_size=1))
def test_other_orders_of_rows_with_different_dictionaries(parts: list[list[str | None]]) -> None:
    tables = [pa.table({"s": pa.array(part, pa.string())}) for part in parts]
    rows = concat_rows([with_dictionaries(table) for table in tables]).combine_chunks()
    backwards = pa.array(range(len(rows) - 1, -1, -1))
    assert without_dictionaries(rows.take(backwards)).to_pylist() == pa.concat_tables(tables).to_pylist()[::-1]
