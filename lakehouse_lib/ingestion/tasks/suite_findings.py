"""The findings of a suite about rows of a batch, on Arrow: ``gate`` judges each block, and the findings are added up.

A row that breaks a rule goes to the quarantine. If a rule has ``mostly``, only the counts of the whole batch decide
which rules are broken; until then, all rows that break a rule are *set apart*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.types import VARIANT
from lakehouse_lib.arrow.values import int64s
from lakehouse_lib.ingestion.gate import RuleCounts, Translation, broken_rules, judge
from lakehouse_lib.ingestion.gate.judgement import POSITIONS


@dataclass(frozen=True)
class Findings:
    """The findings of a suite about rows.

    Attributes:
        counts: the counts of the row rules.
        states: the states of the table rules, in their order.
    """

    counts: RuleCounts
    states: tuple[Any, ...]


@dataclass(frozen=True)
class JudgedRows:
    """The judgement of a suite about the rows of a block.

    Attributes:
        passing: the numbers of the rows that break no rule; None: all rows.
        failing: the numbers of the other rows.
        positions: the rules that each of them breaks (``POSITIONS``).
        findings: about all rows.
    """

    passing: pa.Array | None
    failing: pa.Array
    positions: pa.Array
    findings: Findings


def is_complete(suite: Translation, schema: pa.Schema) -> bool:
    """Whether Arrow can judge all rules, and show rows that break them. It has no text for variants."""
    return not suite.untranslated and not any(field.type == VARIANT for field in schema)


def is_strict(suite: Translation) -> bool:
    """Whether no rule tolerates rows, so that a row that breaks a rule can be rejected at once."""
    return all(rule.mostly >= 1 for rule in suite.row_rules)


def no_findings(suite: Translation) -> Findings:
    """The findings about no rows."""
    zeros = (0,) * len(suite.row_rules)
    return Findings(RuleCounts(zeros, zeros), tuple(rule.merge([]) for rule in suite.table_rules))


def sum_of(suite: Translation, findings: Sequence[Findings]) -> Findings:
    """The findings about the rows of all ``findings``."""
    counts = no_findings(suite).counts
    for part in findings:
        counts = counts + part.counts
    states = (rule.merge([part.states[place] for part in findings]) for place, rule in enumerate(suite.table_rules))
    return Findings(counts, tuple(states))


def judge_rows(suite: Translation, rows: pa.RecordBatch) -> JudgedRows:
    """Judge the rows of a block."""
    judgement = judge(suite.row_rules, rows)
    states = tuple(rule.measure(rows) for rule in suite.table_rules)
    findings = Findings(judgement.counts, states)
    if judgement.passing is None:
        return JudgedRows(None, int64s([]), pa.nulls(0, POSITIONS), findings)
    numbers = int64s(np.arange(rows.num_rows))
    return JudgedRows(
        numbers.filter(judgement.passing), numbers.filter(pc.invert(judgement.passing)), judgement.positions, findings
    )


def broken_table_rules(suite: Translation, findings: Findings) -> list[str]:
    """The table rules that the batch breaks, with the observed values."""
    verdicts = (rule.verdict(state) for rule, state in zip(suite.table_rules, findings.states, strict=True))
    return [verdict for verdict in verdicts if verdict is not None]


def broken_row_rules(suite: Translation, findings: Findings) -> dict[str, int]:
    """The number of rows that break each of the broken row rules, by rule id."""
    broken = broken_rules(suite.row_rules, findings.counts)
    return {suite.row_rules[place].rule.id: findings.counts.broken[place] for place in broken}
