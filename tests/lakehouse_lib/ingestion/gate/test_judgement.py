"""Rows are judged batch by batch, and rules with ``mostly`` are decided at the end."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib.ingestion.gate import broken_rules, judge, translate, violations
from lakehouse_lib.ingestion.quality import read_rules
from lakehouse_lib.schema import Schema

SCHEMA = Schema.from_arrow(pa.schema([("id", pa.int64()), ("name", pa.string())]))


def rules_of(*expectations: tuple[str, dict[str, Any]]) -> Any:
    suite = {
        "expectations": [
            {
                "type": f"expect_column_values_to_{kind}",
                "kwargs": kwargs,
                "meta": {"rule_id": f"{kind} {kwargs['column']}"},
            }
            for kind, kwargs in expectations
        ]
    }
    translation = translate(read_rules(suite, SCHEMA.names), SCHEMA)
    assert translation.untranslated == ()
    return translation.row_rules


def batch(ids: list[int | None], names: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.int64()), pa.array(names, pa.string())], names=["id", "name"])


def test_a_batch_without_failing_rows_has_no_masks() -> None:
    rules = rules_of(("not_be_null", {"column": "id"}), ("match_regex", {"column": "name", "regex": "^a"}))
    judgement = judge(rules, batch([1, 2], ["a", None]))
    assert judgement.passing is None
    assert len(judgement.positions) == 0
    assert judgement.counts.broken == (0, 0)
    assert broken_rules(rules, judgement.counts) == ()


@pytest.mark.parametrize(("mostly", "is_broken"), [(0.5, False), (0.75, True)])
def test_rows_that_break_only_tolerant_rules_are_decided_by_all_batches(mostly: float, is_broken: bool) -> None:
    rules = rules_of(
        ("not_be_null", {"column": "id"}), ("match_regex", {"column": "name", "regex": "^a", "mostly": mostly})
    )
    judgements = [
        judge(rules, batch([1, None, 3], ["a", "b", "b"])),
        judge(rules, batch([None, 5, 6], [None, "a", "a"])),
    ]
    first, second = judgements
    assert first.passing is not None
    assert first.passing.to_pylist() == [True, False, False]
    assert first.positions.to_pylist() == [[0, 1], [1]]
    assert second.positions.to_pylist() == [[0]]
    counts = first.counts + second.counts
    assert (counts.broken, counts.counted) == ((2, 2), (0, 5))
    broken = broken_rules(rules, counts)
    assert broken == ((0, 1) if is_broken else (0,))
    null, name = (
        {"column": column, "reason": rule, "rule": rule}
        for column, rule in (("id", "not_be_null id"), ("name", "match_regex name"))
    )
    lists = violations(rules, first.positions, broken)
    assert lists.to_pylist() == ([[null, name], [name]] if is_broken else [[null], []])
    assert violations(rules, second.positions, broken).to_pylist() == [[null]]


def test_slices_of_batches_are_judged_like_copies() -> None:
    rules = rules_of(
        ("be_between", {"column": "id", "min_value": 2}), ("be_in_set", {"column": "name", "value_set": ["a"]})
    )
    part = batch([0, 1, 2, None, 4], ["b", "b", "a", None, "c"]).slice(1, 4)
    judgement = judge(rules, part)
    assert judgement.passing is not None
    assert judgement.passing.to_pylist() == [False, True, True, False]
    assert judgement.positions.to_pylist() == [[0, 1], [1]]
    assert violations(rules, judgement.positions[1:], (1,)).to_pylist() == [
        [{"column": "name", "reason": "be_in_set name", "rule": "be_in_set name"}]
    ]


@pytest.mark.parametrize(
    ("broken", "counted", "mostly", "is_broken"),
    [(1, 10, 0.9, False), (2, 10, 0.9, True), (63, 90, 0.3, False), (10, 10, 0.0, False), (0, 0, 0.5, False)],
)
def test_a_share_that_is_exactly_mostly_keeps_the_rule(
    broken: int, counted: int, mostly: float, is_broken: bool
) -> None:
    (rule,) = rules_of(("match_regex", {"column": "name", "regex": "^a", "mostly": mostly}))
    names: list[str | None] = ["b"] * broken + ["a"] * (counted - broken)
    judgement = judge([rule], batch([1] * counted, names))
    assert broken_rules([rule], judgement.counts) == ((0,) if is_broken else ())
