"""A subject's configuration and identifiers: which are refused, and that their text never becomes SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import matches, parse
from lakehouse_lib.privacy import sql
from lakehouse_lib.privacy.subject import Subject, SubjectRows, Through, subject_from_config
from lakehouse_lib.schema import Field, PrimitiveType, Schema

CONFIG: dict[str, Any] = {
    "id_type": "long",
    "rows": [
        {"table": "customer", "key": "c_custkey"},
        {"table": "orders", "key": "o_custkey", "through": None},
        {
            "table": "lineitem",
            "key": "l_orderkey",
            "through": {"table": "orders", "key": "o_custkey", "select": "o_orderkey", "quarantine": False},
        },
    ],
}
LONG = Subject("long", ())
STRING = Subject("string", ())


def test_a_configuration_becomes_a_subject() -> None:
    subject = subject_from_config(CONFIG)
    assert subject == Subject(
        "long",
        (
            SubjectRows("customer", "c_custkey"),
            SubjectRows("orders", "o_custkey"),
            SubjectRows("lineitem", "l_orderkey", Through("orders", "o_custkey", "o_orderkey")),
        ),
    )


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ([], "subject is"),
        ({}, "subject.id_type is None"),
        ({"id_type": "uuid", "rows": []}, "'uuid'"),
        ({"id_type": "long"}, "subject.rows is None"),
        ({"id_type": "long", "rows": []}, "subject.rows is \\[\\]"),
        ({"id_type": "long", "rows": "orders"}, "'orders'"),
        ({"id_type": "long", "rows": ["orders"]}, "subject.rows\\[0\\] is 'orders'"),
        ({"id_type": "long", "rows": [{"table": "t"}]}, "subject.rows\\[0\\].key is None"),
        ({"id_type": "long", "rows": [{"table": "", "key": "k"}]}, "subject.rows\\[0\\].table is ''"),
        ({"id_type": "long", "rows": [{"table": "t", "key": 1}]}, "subject.rows\\[0\\].key is 1"),
        ({"id_type": "long", "rows": [{"table": "t", "key": "k", "kye": 1}]}, "subject.rows\\[0\\].kye"),
        ({"id_type": "long", "rows": [{"table": "t", "key": "k", "quarantine": "yes"}]}, "quarantine is 'yes'"),
        (
            {"id_type": "long", "rows": [{"table": "t", "key": "k", "through": {"table": "o", "key": "k"}}]},
            "through.select is None",
        ),
        (
            {
                "id_type": "long",
                "rows": [
                    {"table": "t", "key": "k", "through": {"table": "o", "key": "k", "select": "s", "quarantine": 1}}
                ],
            },
            "through.quarantine is 1",
        ),
        ({"id_type": "long", "rows": [{"table": "t", "key": "k"}], "extra": 1}, "subject.extra"),
    ],
)
def test_the_error_of_a_wrong_configuration_names_the_place(config: Any, place: str) -> None:
    with pytest.raises(InvalidArgumentError, match=place):
        subject_from_config(config)


@pytest.mark.parametrize(
    "wrong", ["", " ", None, True, "abc", "12 OR 1=1", "1.5", "1_000", "٣", 1.5, "9223372036854775808", "--1", "0x1"]
)
def test_a_value_that_is_not_an_integer_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        LONG.value(wrong)
    assert repr(wrong) in str(refused.value)


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_an_empty_string_is_refused(empty: object) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        STRING.value(empty)
    assert refused.value.code == "DELTA_INVALID_SUBJECT"


@pytest.mark.parametrize(("given_id", "value"), [(42, 42), ("42", 42), ("-7", -7), ("007", 7), (-(2**63), -(2**63))])
def test_a_long_value(given_id: object, value: int) -> None:
    assert LONG.value(given_id) == value


names = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=12
)


@given(
    names,
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=3),
    st.text(max_size=12),
)
def test_a_condition_is_true_for_exactly_its_strings(column: str, values: list[str], other: str) -> None:
    schema = Schema([Field(column, PrimitiveType("string"))])
    predicate = parse(sql.is_one_of(column, PrimitiveType("string"), values), schema)
    rows = pa.table({column: pa.array([*values, other, None], pa.string())})
    assert matches(predicate, rows).to_pylist() == [*([True] * len(values)), other in values, None]


@pytest.mark.parametrize("kind", ["byte", "short", "integer", "long", "decimal(20,0)", "decimal(22,2)"])
def test_a_condition_has_the_type_of_the_column_and_omits_impossible_values(kind: str) -> None:
    schema = Schema([Field("key", PrimitiveType(kind))])
    condition = sql.is_one_of("key", PrimitiveType(kind), ["7", "not a number", " 9 ", 2**62])
    rows = pa.table({"key": pa.array([7, 8, 9, None]).cast(PrimitiveType(kind).to_arrow())})
    assert matches(parse(condition, schema), rows).to_pylist() == [True, False, True, None]


def test_without_values_nothing_matches() -> None:
    schema = Schema([Field("key", PrimitiveType("long"))])
    condition = sql.is_one_of("key", PrimitiveType("long"), [])
    assert matches(parse(condition, schema), pa.table({"key": [1, None]})).to_pylist() == [False, False]


def test_a_double_is_refused_as_a_key() -> None:
    with pytest.raises(TypeError, match="double"):
        sql.is_one_of("key", PrimitiveType("double"), [1])
