"""Rules about a batch as a whole are measured by record batch, and the states are merged."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.ingestion.gate import TableRule, translate
from lakehouse_lib.schema import Schema

COLUMNS = {
    "id": pa.array([1, 2, 2, None, 2**62]),
    "price": pa.array([Decimal("0.10"), None, Decimal("0.20"), Decimal("0.30"), Decimal("0.10")], pa.decimal128(10, 2)),
    "share": pa.array([0.5, math.nan, None, -1.0, 0.0]),
    "name": pa.array(["a", "b", None, "a", "c"]),
}
ROWS = pa.table(COLUMNS)


def verdict(kind: str, **arguments: Any) -> str | None:
    """The observed value of a broken rule, the same for any cut into batches; None: the rule is kept."""
    rule = Rule("r", f"expect_{kind}", arguments, arguments.get("column"))
    (table_rule,) = translate([rule], Schema.from_arrow(ROWS.schema)).table_rules
    observed = {_verdict(table_rule, ROWS, step) for step in (1, 2, 5)}
    assert len(observed) == 1
    text = observed.pop()
    if text is None:
        return None
    assert text.startswith(f"{rule}, observed ")
    return text.removeprefix(f"{rule}, observed ")


def _verdict(rule: TableRule, rows: pa.Table, step: int) -> str | None:
    batches = [rows.slice(start, step).combine_chunks().to_batches()[0] for start in range(0, len(rows), step)]
    return rule.verdict(rule.merge([rule.measure(batch) for batch in batches]))


@pytest.mark.parametrize(
    ("kind", "arguments", "observed"),
    [
        ("table_row_count_to_be_between", {"min_value": 5, "max_value": 5}, None),
        ("table_row_count_to_be_between", {"min_value": 5, "strict_min": True}, "5"),
        ("table_row_count_to_equal", {"value": 2, "row_condition": "id = 2"}, None),
        ("column_proportion_of_non_null_values_to_be_between", {"column": "id", "min_value": 0.8}, None),
        ("column_proportion_of_non_null_values_to_be_between", {"column": "id", "min_value": 0.9}, "0.8"),
        ("column_min_to_be_between", {"column": "share", "min_value": 0}, "-1.0"),
        ("column_max_to_be_between", {"column": "share", "max_value": 9}, "nan"),
        ("column_max_to_be_between", {"column": "price", "max_value": 0.3}, None),
        ("column_max_to_be_between", {"column": "price", "max_value": 0.3, "strict_max": True}, "0.3"),
        ("column_sum_to_be_between", {"column": "id", "min_value": 2.0**62}, None),
        ("column_sum_to_be_between", {"column": "price", "max_value": 0.6}, "0.7"),
        ("column_mean_to_be_between", {"column": "price", "min_value": 0.2}, "0.175"),
        ("column_mean_to_be_between", {"column": "id", "max_value": 2, "row_condition": "id < 3"}, None),
        ("column_distinct_values_to_be_in_set", {"column": "name", "value_set": ["a", "b", "c", "d"]}, None),
        ("column_distinct_values_to_be_in_set", {"column": "name", "value_set": ["a", "b"]}, "values such as 'c'"),
        ("column_distinct_values_to_contain_set", {"column": "name", "value_set": ["a", "d"]}, "1 of the 2 values"),
        ("column_distinct_values_to_equal_set", {"column": "name", "value_set": ["a", "b", "c"]}, None),
        ("column_unique_value_count_to_be_between", {"column": "name", "max_value": 3}, None),
        ("column_unique_value_count_to_be_between", {"column": "name", "max_value": 1}, "at least 2"),
        ("column_unique_value_count_to_be_between", {"column": "name", "min_value": 4}, "3"),
        ("column_values_to_be_of_type", {"column": "id", "type_": "LongType"}, None),
        ("column_to_exist", {"column": "id"}, None),
        ("table_column_count_to_be_between", {"min_value": 5}, "4"),
        ("table_columns_to_match_set", {"column_set": ["name", "id"], "exact_match": False}, None),
        ("table_columns_to_match_ordered_list", {"column_list": ["id"]}, "['id', 'price', 'share', 'name']"),
        ("column_values_to_be_in_type_list", {"column": "id", "type_list": ["StringType", "DateType"]}, "'LongType'"),
    ],
)  # fmt: skip
def test_verdicts(kind: str, arguments: dict[str, Any], observed: str | None) -> None:
    assert verdict(kind, **arguments) == observed


def test_a_load_without_rows_has_no_least_value_and_zero_rows() -> None:
    rules = [
        Rule("least", "expect_column_min_to_be_between", {"column": "id", "min_value": 0}, "id"),
        Rule("rows", "expect_table_row_count_to_equal", {"value": 0}, None),
    ]
    least, rows = translate(rules, Schema.from_arrow(ROWS.schema)).table_rules
    assert least.verdict(least.merge([])) is not None
    assert rows.verdict(rows.merge([])) is None
