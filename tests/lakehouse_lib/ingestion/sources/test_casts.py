from __future__ import annotations

from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.ingestion.sources.casts import cast_or_find, from_text, type_name

BAD = object()


@pytest.mark.parametrize(
    ("data_type", "cells"),
    [
        (
            pa.int32(),
            {"7": "7", "-7": "-7", "": None, "0x1F": BAD, "3000000000": BAD, "1.0": BAD, " 1": BAD, "one": BAD}
            | {"+7": "7", "+-7": BAD, "++7": BAD, "+": BAD, "+0x1F": BAD},
        ),
        (pa.int8(), {"127": "127", "128": BAD}),
        (pa.int8(), {"+127": "127", "-1": "-1", "+128": BAD}),
        (pa.decimal128(5, 2), {"1.5": "1.50", "-.5": "-0.50", "1.234": BAD, "1234.00": BAD, "abc": BAD}),
        (
            pa.float64(),
            {
                "1e3": "1000.0",
                "-inf": "-inf",
                "1e400": BAD,
                "-1e-400": BAD,
                "5e-324": "5e-324",
                "0e-400": "0.0",
                "1,5": BAD,
            },
        ),
        (pa.bool_(), {"true": "True", "FALSE": "False", "1": "True", "yes": BAD}),
        (pa.date32(), {"2024-02-29": "2024-02-29", "2023-02-29": BAD, "20240229": BAD, "2024-2-9": BAD}),
        (pa.timestamp("us"), {"2024-01-02 03:04:05.5": "2024-01-02 03:04:05.500000", "2024-01-02T03:04:05Z": BAD}),
        (
            pa.timestamp("us", "UTC"),
            {
                "2024-01-02T03:04:05Z": "2024-01-02 03:04:05+00:00",
                "2024-01-02 03:04:05": "2024-01-02 03:04:05+00:00",
                "2024-01-02 03:04:05+02:00": "2024-01-02 01:04:05+00:00",
                "2024-01-02": "2024-01-02 00:00:00+00:00",
                "soon": BAD,
            },
        ),
        (pa.string(), {"": "", " x ": " x "}),
    ],
    ids=lambda value: type_name(value) if isinstance(value, pa.DataType) else None,
)
def test_text_is_cast_or_marked(data_type: pa.DataType, cells: dict[str, object]) -> None:
    texts = [*cells, None]
    typed, bad = from_text(pa.array(texts, pa.string()), data_type)
    assert typed.type == data_type
    assert list(bad) == [cells.get(text) is BAD for text in texts]
    shown = [None if value is None else str(value) for value in typed.to_pylist()]
    assert shown == [None if text is None or cells[text] in (BAD, None) else cells[text] for text in texts]


def _is_decimal(text: str) -> bool:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return False
    return value.is_finite() and abs(value) < 1000 and value == value.quantize(Decimal("0.01"))


@given(st.lists(st.from_regex(r"-?[0-9]{1,4}(\.[0-9]{1,3})?|[a-z]{1,2}", fullmatch=True), max_size=60))
def test_exactly_the_cells_that_do_not_fit_are_marked(texts: list[str]) -> None:
    typed, bad = from_text(pa.array(texts, pa.string()), pa.decimal128(5, 2))
    assert list(bad) == [not _is_decimal(text) for text in texts]
    assert typed.to_pylist() == [Decimal(text) if _is_decimal(text) else None for text in texts]


WRAPPED = 2**128  # as many units as 128 bits can count


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        (pa.decimal128(15, 2), str(WRAPPED + 4711)),
        (pa.decimal128(15, 2), str(-WRAPPED - 4711)),
        (pa.decimal128(15, 2), f"+{WRAPPED}"),
        (pa.decimal128(15, 2), f"{WRAPPED + 5}e-2"),
        (pa.decimal128(15, 2), str(2**256 + 4711)),
        (pa.decimal128(15, 2), str(10**400 // WRAPPED * WRAPPED)),
        (pa.decimal128(38, 0), "9" * 39),
        (pa.decimal128(38, 18), "3402823669209384634633746074317686825.56"),
        (pa.decimal128(38, 38), "3.5"),  # the scale adds too many digits to this short text
    ],
    ids=lambda value: type_name(value) if isinstance(value, pa.DataType) else str(value)[:24],
)
def test_a_number_of_too_many_digits_is_marked(data_type: pa.DataType, text: str) -> None:
    typed, bad = from_text(pa.array(["0.25", text, None, "x"][data_type.scale == 0 :]), data_type)
    assert typed.to_pylist() == [Decimal("0.25"), None, None, None][data_type.scale == 0 :]
    assert list(bad) == [False, True, False, True][data_type.scale == 0 :]


@given(
    st.sampled_from([(38, 0), (15, 2), (38, 18), (38, 38)]),
    st.lists(st.from_regex(r"[+-]?[0-9]{1,45}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True), max_size=20),
)
def test_a_decimal_is_the_exact_number_of_its_text(type_of: tuple[int, int], texts: list[str]) -> None:
    typed, bad = from_text(pa.array(texts, pa.string()), pa.decimal128(*type_of))
    read = zip(texts, typed.to_pylist(), bad, strict=True)
    assert all((value is None) == wrong and value in (None, Decimal(text)) for text, value, wrong in read)


def test_lossy_cast_is_found_in_a_sliced_array() -> None:
    column = pa.array([0, 1, 300, 2, 999], pa.int64()).slice(1)
    typed, bad = cast_or_find(column, pa.int8())
    assert typed.to_pylist() == [1, None, 2, None]
    assert np.array_equal(bad, [False, True, False, True])


@pytest.mark.parametrize(
    ("data_type", "name"),
    [(pa.decimal128(15, 2), "decimal(15,2)"), (pa.int64(), "long"), (pa.timestamp("us"), "timestamp_ntz")],
)
def test_types_have_the_names_of_the_table(data_type: pa.DataType, name: str) -> None:
    assert type_name(data_type) == name


@pytest.mark.parametrize(("data_type", "as_numpy"), [(pa.float64(), np.float64), (pa.float32(), np.float32)])
@given(
    st.lists(
        st.from_regex(r"-?([0-9]{1,3}(\.[0-9]{0,3})?|\.[0-9]{1,3})([eE][-+]?[0-9]{1,3})?", fullmatch=True), max_size=20
    )
)
def test_no_number_becomes_zero_or_infinity(
    data_type: pa.DataType, as_numpy: type[np.floating], texts: list[str]
) -> None:
    """NumPy parses the numbers; a denormal number stays different from zero."""
    typed, bad = from_text(pa.array(texts, pa.string()), data_type)
    with np.errstate(over="ignore", under="ignore"):
        numbers = [as_numpy(text) for text in texts]
    is_zero = [Decimal(text).is_zero() for text in texts]
    lost = [np.isinf(value) or (value == 0 and not zero) for value, zero in zip(numbers, is_zero, strict=True)]
    assert list(bad) == lost
    assert typed.to_pylist() == [None if wrong else value for value, wrong in zip(numbers, lost, strict=True)]


def test_a_decimal_is_exact_or_does_not_fit() -> None:
    texts = ["1e-400", "0.001", "0.010", "0e-400", "1e-2"]
    typed, bad = from_text(pa.array(texts), pa.decimal128(10, 2))
    assert bad[:2].all()
    assert [value for value, wrong in zip(typed.to_pylist(), bad, strict=True) if not wrong] == [
        Decimal(text) for text, wrong in zip(texts, bad, strict=True) if not wrong
    ]
