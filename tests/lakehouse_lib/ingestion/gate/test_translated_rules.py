"""Which rules are translated, and the verdicts of translated rules on single rows."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.ingestion.gate import Translation, translate
from lakehouse_lib.ingestion.gate.row_expectations import EXPECTATIONS as ROW_EXPECTATIONS
from lakehouse_lib.ingestion.gate.table_expectations import EXPECTATIONS as TABLE_EXPECTATIONS
from tests.gate import judges
from tests.gate.random_rows import COLUMNS, SCHEMA
from tests.gate.recorded import recorded_rows, recorded_rules, rules_of


def nested(levels: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"type": "nullity", "column": {"name": "i8"}, "is_null": True}
    for _ in range(levels):
        condition = {"type": "and", "conditions": [condition]}
    return condition


def test_row_rules_have_the_recorded_verdicts_of_great_expectations() -> None:
    entries = recorded_rules()
    translation = translate(rules_of(entries), SCHEMA)
    assert translation.untranslated == ()
    assert {entry["type"] for entry in entries} == set(ROW_EXPECTATIONS)
    recorded = {
        str(number): judges.RowVerdict(tuple(entry["broken"]), entry["counted"]) for number, entry in enumerate(entries)
    }
    for step in (7, 60):
        verdicts, _ = judges.by_arrow(translation.row_rules, recorded_rows(), step)
        by_rule = {rule.rule.id: verdict for rule, verdict in zip(translation.row_rules, verdicts, strict=True)}
        assert by_rule == recorded
    assert sum(bool(verdict.broken) for verdict in recorded.values()) > len(recorded) / 2


@pytest.mark.parametrize(
    ("kind", "arguments", "reason"),
    [
        ("column_values_to_be_unique", {"column": "i64"}, "among all rows of a batch"),
        ("compound_columns_to_be_unique", {"column_list": ["i64", "i8"]}, "among all rows"),
        ("column_values_to_be_increasing", {"column": "i64"}, "order of all rows"),
        ("column_median_to_be_between", {"column": "i64", "max_value": 1}, "is not translated"),
        ("column_values_to_be_between", {"column": "text", "min_value": 1}, "column of the type string"),
        ("column_values_to_be_between", {"column": "i64"}, "are left out"),
        ("column_values_to_be_between", {"column": "i64", "min_value": 2, "max_value": 1}, "greater than max_value"),
        ("column_values_to_be_between", {"column": "i64", "min_value": "5"}, "neither a number nor a date"),
        ("column_values_to_be_between", {"column": "i64", "min_value": {"$PARAMETER": "x"}}, "neither a number nor a"),
        ("column_values_to_be_between", {"column": "day", "min_value": "2024-02-30"}, "is not a date"),
        ("column_values_to_be_between", {"column": "day", "min_value": "2024-01-01T10:00:00"}, "compared with a date"),
        ("column_values_to_be_between", {"column": "clock", "min_value": "2024-01-01T10:00:00Z"}, "with a timestamp"),
        ("column_values_to_be_between", {"column": "day", "min_value": "1899-12-31"}, "before the year 1900"),
        ("column_values_to_be_between", {"column": "i64", "minimum": 1}, "the argument 'minimum'"),
        ("column_values_to_be_between", {"column": "i64", "min_value": 1, "mostly": "most"}, "mostly is not"),
        ("column_values_to_be_in_set", {"column": "i64", "value_set": [1, "a"]}, "several types"),
        ("column_values_to_be_in_set", {"column": "i64", "value_set": ["1"]}, "compared with a number"),
        ("column_values_to_be_in_set", {"column": "exact", "value_set": [0.1]}, "are 0.1 as a double"),
        ("column_values_to_match_regex", {"column": "i64", "regex": "1"}, "not text"),
        ("column_value_lengths_to_be_between", {"column": "i64", "min_value": 1}, "has no length"),
        ("column_pair_values_to_be_equal", {"column_A": "f64", "column_B": "money"}, "are not compared"),
        ("column_pair_values_to_be_equal", {"column_A": "exact", "column_B": "huge"}, "no decimal of 38 digits"),
        ("multicolumn_sum_to_equal", {"column_list": ["f64", "i8"], "sum_total": 1}, "not all integers"),
        ("column_values_to_be_null", {"column": "i8", "row_condition": "i8 DIV 2 = 1"}, "SQL that is not translated"),
        ("column_values_to_be_null", {"column": "i8", "row_condition": "i8 >"}, "not valid SQL"),
        ("column_values_to_be_null", {"column": "i8", "row_condition": "`Huge` <=> 0.1"}, "many digits"),
        ("column_values_to_be_null", {"column": "i8", "row_condition": nested(400)}, "too many parts"),
        ("column_sum_to_be_between", {"column": "f64", "max_value": 1}, "order of the rows"),
        ("column_unique_value_count_to_be_between", {"column": "i64", "max_value": 10**6}, "distinct values"),
    ],
)  # fmt: skip
def test_rules_that_may_differ_are_left_to_great_expectations(
    kind: str, arguments: dict[str, Any], reason: str
) -> None:
    translation = translate([Rule("r", f"expect_{kind}", arguments, arguments.get("column"))], SCHEMA)
    assert (translation.row_rules, translation.table_rules) == ((), ())
    (rest,) = translation.untranslated
    assert reason in rest.reason


def test_a_translation_can_be_pickled_and_has_the_order_of_the_columns() -> None:
    entries = [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "text"}},
        {"type": "expect_column_values_to_be_between", "kwargs": {"column": "i64", "min_value": 1}},
        {"type": "expect_multicolumn_sum_to_equal", "kwargs": {"column_list": ["i64", "i8"], "sum_total": 1}},
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}},
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "i64"}},
    ]
    translation = pickle.loads(pickle.dumps(translate(rules_of(entries), SCHEMA)))
    assert isinstance(translation, Translation)
    assert [rule.rule.id for rule in translation.row_rules] == ["1", "2", "0"]
    assert [rule.rule.id for rule in translation.table_rules] == ["3"]
    assert [rest.rule.id for rest in translation.untranslated] == ["4"]


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([*COLUMNS, "1970-01-01", sys.float_info.max, 10**400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
_COLUMN = st.sampled_from(list(COLUMNS)) | _JSON
_ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("column", "column_A", "column_B"), _COLUMN),
        "column_list": st.lists(_COLUMN, max_size=3) | _JSON,
        **dict.fromkeys(
            (
                "min_value", "max_value", "strict_min", "value_set", "value_pairs_set", "regex", "regex_list", "value",
                "sum_total", "type_", "type_list", "mostly", "ignore_row_if", "row_condition", "condition_parser",
            ),
            _JSON,
        ),
    },
)  # fmt: skip


@pytest.mark.parametrize("column", ["i64", "money", "huge"])
def test_the_largest_double_is_a_bound_like_any_other(column: str) -> None:
    kind, most = "expect_column_values_to_be_between", sys.float_info.max
    arguments = [{"min_value": -most, "max_value": most}, {"min_value": most}, {"max_value": -most}]
    rules = [Rule(str(number), kind, {"column": column, **each}, column) for number, each in enumerate(arguments)]
    rows = pa.RecordBatch.from_pylist([{column: value} for value in COLUMNS[column][1]], SCHEMA.to_arrow())
    everything, *nothing = (rule.passes(rows).to_pylist() for rule in translate(rules, SCHEMA).row_rules)
    assert everything == [True] * len(rows)
    assert nothing == [[False] * len(rows)] * 2


@pytest.mark.parametrize("argument", ["min_value", "mostly"])
def test_a_number_beyond_the_doubles_is_left_to_great_expectations(argument: str) -> None:
    arguments = {"column": "i64", "max_value": 0, argument: 10**400}
    translation = translate([Rule("r", "expect_column_values_to_be_between", arguments, "i64")], SCHEMA)
    assert [rest.rule.id for rest in translation.untranslated] == ["r"]


@given(kind=st.sampled_from(sorted({*ROW_EXPECTATIONS, *TABLE_EXPECTATIONS})), arguments=_ARGUMENTS)
def test_no_argument_makes_a_translation_fail(kind: str, arguments: dict[str, Any]) -> None:
    translation = translate([Rule("r", kind, arguments, None)], SCHEMA)
    rows = SCHEMA.to_arrow().empty_table().to_batches() or [pa.RecordBatch.from_pylist([], SCHEMA.to_arrow())]
    for rule in translation.row_rules:
        assert len(rule.passes(rows[0])) == len(rule.applies(rows[0])) == 0
    for table_rule in translation.table_rules:
        table_rule.verdict(table_rule.merge([table_rule.measure(rows[0])]))
