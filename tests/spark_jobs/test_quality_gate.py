from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse_lib.engine.spark.quality_gate import VIOLATIONS, Gate
from lakehouse_lib.errors import QualityError
from lakehouse_lib.ingestion.quality import read_rules
from tests.suite_warnings import SUITE_WARNINGS

pytestmark = [*SUITE_WARNINGS]

COLUMNS = ("id", "price", "flag", "day")


def rule(kind: str, identity: str, **arguments: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": arguments, "meta": {"rule_id": identity}}


def suite(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"name": "orders", "expectations": list(rules)}


def where(column: str, operator: str, value: object) -> dict[str, object]:
    """A row condition as Great Expectations writes it to JSON."""
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": value}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    data = [
        (1, Decimal("5.00"), "A", "2024-01-01"),
        (2, Decimal("-1.00"), "B", "2024-01-02"),
        (2, Decimal("-2.00"), "?", None),
        (3, None, None, "2023-01-01"),
    ]
    return spark.createDataFrame(data, "id long, price decimal(15,2), flag string, day string")


def gate_of(spark: SparkSession, rows: DataFrame, columns: Sequence[str], *rules: dict[str, Any]) -> Gate:
    return Gate(spark, read_rules(suite(*rules), columns), rows, columns)


def judged(spark: SparkSession, rows: DataFrame, *rules: dict[str, Any]) -> dict[int, list[tuple[str, str]]]:
    """The position of each failing row in ``rows``, with its violations; checks that the other rows pass."""
    verdict = gate_of(spark, rows, COLUMNS, *rules).judge(rows)
    everything = [tuple(row) for row in rows.collect()]
    failing = [] if verdict.failing is None else verdict.failing.collect()
    assert len(failing) == verdict.rows_failing
    violations_by_row = {
        everything.index(tuple(row)[:4]): [(each["column"], each["rule"]) for each in row[VIOLATIONS]]
        for row in failing
    }
    passing = sorted(everything.index(tuple(row)) for row in verdict.passing.collect())
    assert sorted([*violations_by_row, *passing]) == list(range(len(everything)))
    counts: dict[str, int] = {}
    for violations in violations_by_row.values():
        for _, identity in violations:
            counts[identity] = counts.get(identity, 0) + 1
    assert counts == verdict.broken
    return violations_by_row


def test_row_rules_name_each_row_and_rule_in_the_order_of_the_columns(spark: SparkSession, rows: DataFrame) -> None:
    violations = judged(
        spark,
        rows,
        rule("expect_column_values_to_be_in_set", "known flag", column="flag", value_set=["A", "B"]),
        rule("expect_column_values_to_be_between", "price not negative", column="price", min_value=0),
        rule("expect_column_values_to_be_unique", "one id", column="id"),
        rule("expect_column_values_to_not_be_null", "has a flag", column="flag"),
        rule("expect_table_row_count_to_be_between", "some rows", min_value=1),
    )
    assert violations == {
        1: [("id", "one id"), ("price", "price not negative")],
        2: [("id", "one id"), ("price", "price not negative"), ("flag", "known flag")],
        3: [("flag", "has a flag")],
    }


@pytest.mark.slow
def test_rules_about_two_columns_and_some_of_the_rows(spark: SparkSession, rows: DataFrame) -> None:
    violations = judged(
        spark,
        rows,
        rule("expect_column_pair_values_a_to_be_greater_than_b", "price above id", column_A="price", column_B="id",
             ignore_row_if="either_value_is_missing"),
        rule("expect_column_values_to_be_in_set", "flag B", column="flag", value_set=["B"],
             row_condition=where("day", ">=", "2024-01-01")),
    )  # fmt: skip
    assert violations == {
        0: [("flag", "flag B")],
        1: [("price", "price above id")],
        2: [("price", "price above id")],
    }


@pytest.mark.slow
@pytest.mark.parametrize(("mostly", "fails"), [(0.5, False), (0.7, True)])
def test_mostly_tolerates_a_share_of_the_rows_that_have_a_value(
    spark: SparkSession, rows: DataFrame, mostly: float, fails: bool
) -> None:
    negative = rule("expect_column_values_to_be_between", "mostly", column="price", max_value=0, mostly=mostly)
    assert set(judged(spark, rows, negative)) == ({0} if fails else set())


@pytest.mark.slow
def test_rule_that_needs_the_batch_first(spark: SparkSession) -> None:
    data = spark.range(1, 21).selectExpr("id", "cast(if(id = 20, 1000, id) as double) price")
    outlier = rule("expect_column_value_z_scores_to_be_less_than", "no outlier", column="price", threshold=3,
                   double_sided=True)  # fmt: skip
    gate = gate_of(spark, data, ("id", "price"), outlier)
    assert gate.judge(data.where("id < 20")).failing is None
    failing = gate.judge(data).failing
    assert failing is not None
    assert [row["id"] for row in failing.collect()] == [20]


def test_a_table_rule_stops_the_load_with_the_observed_value(spark: SparkSession, rows: DataFrame) -> None:
    gate = gate_of(
        spark,
        rows,
        COLUMNS,
        rule("expect_table_row_count_to_be_between", "enough rows", min_value=100),
        rule("expect_column_mean_to_be_between", "mean id", column="id", max_value=10),
    )
    with pytest.raises(QualityError, match=r"enough rows.*min_value=100.*observed 4") as failure:
        gate.judge(rows)
    assert "mean id" not in str(failure.value)


@pytest.mark.parametrize(
    ("unusable", "said"),
    [
        (suite(), "is empty"),
        ({"name": "x"}, "expected a list of expectations"),
        (suite({"type": "expect_column_values_to_be_null", "kwargs": {"column": "id"}}), "no unique meta.rule_id"),
        (suite(*[rule("expect_column_values_to_be_null", "same", column="id")] * 2), "no unique meta.rule_id"),
        (suite(rule("expect_column_mean_to_be_between", "r", column="cost", min_value=1)), "unknown columns cost"),
        (suite(rule("expect_column_pair_values_to_be_equal", "r", column_A="id", column_B="b")), "unknown columns b"),
        (suite({**rule("expect_column_values_to_be_null", "r", column="id"), "kwarg": {}}), "not a valid expectation"),
        (suite({"type": "expect_column_values_to_be_null", "kwargs": [1]}), "not a valid expectation"),
        (suite(rule("expect_compound_columns_to_be_unique", "r", column_list=5)), "column_list that is not a list"),
        (suite({"type": "expect_column_values_to_be_null", "meta": "s"}), "not a valid expectation"),
    ],
)
def test_unusable_suite_is_found_without_spark(unusable: Any, said: str) -> None:
    with pytest.raises(QualityError, match=said):
        read_rules(unusable, COLUMNS)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (rule("expect_the_best", "r", column="id"), "the type of the rule r is 'expect_the_best'"),
        (rule("expect_column_values_to_be_between", "r", column="id", minimum=1), "is not valid"),
        (
            rule("expect_column_values_to_be_null", "r", column="id", row_condition=where("cost", ">", 1)),
            "cannot be evaluated",
        ),
        (
            rule("expect_column_values_to_be_unique", "r", column="id", row_condition=where("id", ">", 1)),
            "uniqueness is checked among all rows",
        ),
    ],
    ids=["unknown", "unknown argument", "condition on no column", "unique among some"],
)
def test_unusable_rule_is_named_before_any_batch(
    spark: SparkSession, rows: DataFrame, bad: dict[str, Any], said: str
) -> None:
    with pytest.raises(QualityError, match=said):
        gate_of(spark, rows, COLUMNS, bad)


@pytest.mark.slow
def test_a_rule_that_cannot_be_evaluated_fails_the_load(spark: SparkSession, rows: DataFrame) -> None:
    torn = rule("expect_column_values_to_match_regex", "torn", column="flag", regex="(")
    with pytest.raises(QualityError, match="Unclosed group"):
        gate_of(spark, rows, COLUMNS, torn).judge(rows)
