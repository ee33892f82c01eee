"""Patterns that take exponential time in Java are found before Spark evaluates them."""

from __future__ import annotations

import time
from functools import cache
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.errors import QualityError
from lakehouse_lib.ingestion.gate.patterns.pattern_tree import (
    Alternatives,
    Characters,
    Part,
    Repeat,
    Series,
    parse_pattern,
)
from lakehouse_lib.ingestion.gate.patterns.regex import to_re2
from lakehouse_lib.ingestion.gate.patterns.runaway_patterns import check_patterns, is_runaway
from lakehouse_lib.ingestion.spark_judge import SparkJudge
from lakehouse_lib.schema import Field, Schema


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+$", "^(a*)*b", r"(\w+\s?)+$", "([a-z]+)*x", "((a+))+", "(?:(?:a+)?)*", "(a{2,})+b", "(b|a+)+c"),
        *("(?=x)(a+)+", r"(?<word>\w+)*$", "(a+?)+?b", "(?i:a+)*b", r"([\]a]+)+", "x(?:y(a+)+)", "(?=(a+)+b)"),
        *("(a|a)+b", "^(a|aa)+$", "(a|b|ab)*c", "(.*a){20}", "(a{1,3})+", "((a+){3}){3}", "((a|)+b)+", "(a?b?)*"),
        *("(at|a|t)+x", "(?i)(AB|ab)+x", "(?>(a|a)+b)", r"(\p{L}|x)+", r"(\Qab\E|ab)+", "(?i)(a|A)+b", r"(é|\u00e9)+"),
        *(r"^(\d{4}|\d{6})+x", "(a|ba|ab|b)*", "(foo|foobar|bar)+", r"((a+)\2)+", r"(X|\p{Lu}\w*)*", r"([^\W]|\d)*"),
        *("(?x)( a + )+ # words", "(?s)(.*\n)*", "((?>a+)a?)+", "(a|(?i)A)*", r"([a-z&&[b]]|\.)*", "(a|(?=b)a)*"),
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
        *(
            r"\(a+\)+",
            "[(a+)+]+",
            r"\Q(a+)+\E",
            "(a|b)+",
            "(?i)a+",
            "(a+){2}",
            "(",
            ")+",
            "[",
            "a{",
            "",
            "a{9999999999}",
        ),
        *(
            "^(a|ab)*c$",
            r"^([a-z]+\.)*[a-z]+$",
            "^([A-Z]{2}|[A-Z]{3})(-\\d+)*$",
            "(foo|foobar)+",
            "(AB|ab)+x",
            "(é|ü)+",
        ),
        *(
            "((a|b|ab)c|d)*",
            r"(x|\p{Lu}\w)*",
            "(aa|aab|b[ac])*",
            r"(\p{L}+ )*\p{L}+",
            "(.*\n)*",
            "(?x)( a b )+",
            r"([^\d]|\d)*",
        ),
        *("(a?){30}a{30}", "(a|)+b", "((?>a|ab)c)*", "(?:a|a)*+b", "(?i)a(?-i)(b|B)*", r"(a\b|b)*", ".*.*x", "(a{0})*"),
    ],
)
def test_other_patterns_are_accepted(pattern: str) -> None:
    """Java takes 350 steps for (a?){30}a{30}, and 74 for (a|)+b: a loop ends after an empty repetition."""
    assert not is_runaway(pattern)


def _branches(patterns: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantifiers = st.sampled_from(["?", "*", "+", "{2}", "{1,2}", "{2,}", "??", "*?"])
    return st.one_of(
        st.lists(patterns, min_size=2, max_size=3).map("".join),
        st.lists(patterns | st.just(""), min_size=2, max_size=2).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.builds(lambda pattern, quantifier: f"(?:{pattern}){quantifier}", patterns, quantifiers),
    )


@given(st.recursive(st.sampled_from(["a", "b", "[ab]"]), _branches, max_leaves=4))
def test_a_pattern_is_found_if_its_repeated_group_matches_a_short_text_in_two_ways(pattern: str) -> None:
    """The number of ways is counted by trying all of them, as Java does."""
    group = parse_pattern(pattern)
    texts = ("".join(text) for length in range(1, 13) for text in product("ab", repeat=length))
    assert is_runaway(f"(?:{pattern})*") == any(_ways_to_repeat(group, text) > 1 for text in texts)


def _ways_to_repeat(group: Part, text: str) -> int:
    """The number of ways in which repetitions of a group that are not empty match a text."""

    @cache
    def ways(place: int) -> int:
        ends = _ends(group, text, place)
        return 1 if place == len(text) else sum(ways(end) for end in ends if end > place)

    return ways(0)


def _ends(part: Part, text: str, place: int) -> list[int]:
    """Where a match of a part at a place of a text ends, for each way to match."""
    match part:
        case Characters(ranges):
            is_match = place < len(text) and any(low <= ord(text[place]) <= high for low, high in ranges)
            return [place + 1] if is_match else []
        case Series(parts):
            ends = [place]
            for inner in parts:
                ends = [end for start in ends for end in _ends(inner, text, start)]
            return ends
        case Alternatives(parts):
            return [end for inner in parts for end in _ends(inner, text, place)]
        case Repeat(inner, least, most):
            ends = [place] if not least else []
            if most is None or most:
                rest = Repeat(inner, max(least - 1, 0), most if most is None else most - 1)
                for end in _ends(inner, text, place):
                    ends += [end] if end == place else _ends(rest, text, end)
            return ends
        case _:
            raise AssertionError(part)


def test_a_rule_with_such_a_pattern_is_refused_by_name() -> None:
    fine = Rule("fine", "expect_column_values_to_match_regex", {"column": "note", "regex": "a+"}, "note")
    check_patterns([fine, Rule("invalid", fine.type, {"column": "note", "regex_list": 5}, "note")])
    for arguments in ({"regex": "(a+)+b"}, {"regex_list": ["a", "(a+)+b"]}):
        rule = Rule("slow", "expect_column_values_to_match_regex", {"column": "note", **arguments}, "note")
        with pytest.raises(QualityError, match=r"the rule slow has the pattern \(a\+\)\+b"):
            check_patterns([fine, rule])


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(([a-z]{1,50},){1,40};){2,}", "more than 2000 characters with its counts"),
        ("(" * 5000 + "a", "more than 100 levels of groups"),
        ("((a{997})*b|(a{991})*c)*", "too many steps to check"),
    ],
)
def test_a_pattern_that_is_too_large_to_be_checked_is_refused_by_name(pattern: str, reason: str) -> None:
    rule = Rule("large", "expect_column_values_to_match_regex", {"column": "note", "regex": pattern}, "note")
    with pytest.raises(QualityError, match=f"the rule large has the pattern .*{reason}"):
        check_patterns([rule])


@pytest.mark.parametrize(
    ("group", "verdict"),
    [
        (r"\w{1,1999},", False),
        ("|".join(f"{number:04}" for number in range(500)), False),
        ("".join(f"{chr(0x4E00 + number)}?" for number in range(1999)) + ",", False),
        ("a?" * 1000 + ",", True),
    ],
)
def test_a_large_group_is_checked_in_seconds(group: str, verdict: bool) -> None:
    start = time.process_time()
    assert is_runaway(f"(?:{group})*") == verdict
    assert time.process_time() - start < 20


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
