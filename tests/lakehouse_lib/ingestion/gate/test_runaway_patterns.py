"""Patterns that take exponential time in Java are found before Spark evaluates them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.errors import QualityError
from lakehouse_lib.ingestion.gate.regex import to_re2
from lakehouse_lib.ingestion.gate.runaway_patterns import check_patterns, is_runaway
from lakehouse_lib.ingestion.spark_judge import SparkJudge
from lakehouse_lib.schema import Field, Schema


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+$", "^(a*)*b", r"(\w+\s?)+$", "([a-z]+)*x", "((a+))+", "(?:(?:a+)?)*", "(a{2,})+b", "(b|a+)+c"),
        *("(?=x)(a+)+", r"(?<word>\w+)*$", "(a+?)+?b", "(?i:a+)*b", r"([\]a]+)+", "x(?:y(a+)+)"),
        *("(a|a)+b", "^(a|aa)+$", "(a|b|ab)*c", "(a?){30}a{30}", "(.*a){20}", "(a{1,3})+", "((a+){3}){3}", "(a|)+b"),
        *("(at|a|t)+x", "(AB|ab)+x", "(?>(a|a)+b)", r"(\p{L}|x)+", r"(\Qab\E|ab)+", "(?i)(a|A)+b", "(" * 5000 + "a"),
    ],
)
def test_a_group_that_matches_in_several_ways_is_found(pattern: str) -> None:
    assert is_runaway(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("a+", "(ab)+", r"(\w+\.)+\w+", "(a+b)*", "^[^@]+@[^@]+$", "(?!x)a+", "(a++)+", "(?>a+)+", "(a+)*+b"),
        *("(AT|AU|DE)(,(AT|AU|DE))*", "(a|bc|bd)+x", r"(\d{1,3}\.){3}\d{1,3}", "(a{2})+", r"(\s*\w+\s*,)*", ".*a.*b"),
        *(r"^([a-z0-9]+[._-])*[a-z0-9]+@([a-z0-9-]+\.)+[a-z]{2,}$", r"([A-Z][a-z]+ )*[A-Z][a-z]+", "(.*,){3}"),
        *(r"\(a+\)+", "[(a+)+]+", r"\Q(a+)+\E", "(a|b)+", "(?i)a+", "(a+){2}", "(", ")+", "[", "a{", ""),
    ],
)
def test_other_patterns_are_accepted(pattern: str) -> None:
    assert not is_runaway(pattern)


def test_a_rule_with_such_a_pattern_is_refused_by_name() -> None:
    fine = Rule("fine", "expect_column_values_to_match_regex", {"column": "note", "regex": "a+"}, "note")
    check_patterns([fine, Rule("invalid", fine.type, {"column": "note", "regex_list": 5}, "note")])
    for arguments in ({"regex": "(a+)+b"}, {"regex_list": ["a", "(a+)+b"]}):
        rule = Rule("slow", "expect_column_values_to_match_regex", {"column": "note", **arguments}, "note")
        with pytest.raises(QualityError, match=r"the rule slow has the pattern \(a\+\)\+b"):
            check_patterns([fine, rule])


@pytest.mark.parametrize(
    "condition",
    [
        "note rlike '(a+)+b'",
        r"""REGEXP_LIKE(note, "(\\w+\\s?)+b")""",
        {"type": "and", "conditions": [{"type": "pass_through", "pass_through_filter": "note REGEXP r'(a|aa)+b'"}]},
    ],
)
def test_a_rule_with_such_a_pattern_in_its_row_condition_is_refused_by_name(condition: Any) -> None:
    arguments = {"column": "note", "condition_parser": "spark"}
    kind = "expect_column_values_to_not_be_null"
    check_patterns([Rule("fine", kind, {**arguments, "row_condition": "note = '(a+)+b'"}, "note")])
    with pytest.raises(QualityError, match="the rule slow has the pattern"):
        check_patterns([Rule("slow", kind, {**arguments, "row_condition": condition}, "note")])


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
