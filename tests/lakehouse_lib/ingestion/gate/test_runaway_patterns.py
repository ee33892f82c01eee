"""Patterns that take exponential time in Java are found before Spark evaluates them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.errors import QualityError
from lakehouse_lib.ingestion.gate.regex import to_re2
from lakehouse_lib.ingestion.gate.runaway_patterns import check_patterns, repeats_a_repetition
from lakehouse_lib.ingestion.spark_judge import SparkJudge
from lakehouse_lib.schema import Field, Schema


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+$", "^(a*)*b", r"(\w+\s?)+$", "([a-z]+)*x", "((a+))+", "(?:(?:a+)?)*", "(a{2,})+b", "(b|a+)+c"),
        *("(?=x)(a+)+", r"(?<word>\w+)*$", "(a+?)+?b", "(?i:a+)*b", r"([\]a]+)+", "x(?:y(a+)+)"),
    ],
)
def test_a_repetition_of_a_repetition_is_found(pattern: str) -> None:
    assert repeats_a_repetition(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("a+", "(ab)+", r"(\w+\.)+\w+", "(a+b)*", "^[^@]+@[^@]+$", "(?!x)a+", "(a++)+", "(?>a+)+", "(a+)*+b"),
        *(r"\(a+\)+", "[(a+)+]+", r"\Q(a+)+\E", "(a{1,3})+", "(a|b)+", "(?i)a+", "(a+){2}", "(", ")+", "[", "a{", ""),
    ],
)
def test_other_patterns_are_accepted(pattern: str) -> None:
    assert not repeats_a_repetition(pattern)


def test_a_rule_with_such_a_pattern_is_refused_by_name() -> None:
    fine = Rule("fine", "expect_column_values_to_match_regex", {"column": "note", "regex": "a+"}, "note")
    check_patterns([fine, Rule("invalid", fine.type, {"column": "note", "regex_list": 5}, "note")])
    for arguments in ({"regex": "(a+)+b"}, {"regex_list": ["a", "(a+)+b"]}):
        rule = Rule("slow", "expect_column_values_to_match_regex", {"column": "note", **arguments}, "note")
        with pytest.raises(QualityError, match=r"the rule slow has the pattern \(a\+\)\+b"):
            check_patterns([fine, rule])


def test_a_suite_for_spark_is_refused_before_spark_starts() -> None:
    """The session is None, so whatever the gate did with it would fail otherwise."""
    suite = {
        "expectations": [
            {
                "type": "expect_column_values_to_match_regex",
                "kwargs": {"column": "note", "regex": r"(?=x)(\w+)+b"},
                "meta": {"rule_id": "slow"},
            }
        ]
    }
    judge = SparkJudge.__new__(SparkJudge)
    judge._gates = {}
    with pytest.raises(QualityError, match="slow"):
        judge.gate(Schema([Field("note", "string")]), suite)


def test_arrow_judges_such_a_pattern_in_linear_time() -> None:
    batch = pa.record_batch({"note": ["a" * 100_000 + "c"]})
    assert not pc.match_substring_regex(batch["note"], to_re2("^(a+)+$")[0])[0].as_py()
