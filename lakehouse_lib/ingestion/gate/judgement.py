"""Judge the rows of a record batch by row rules, and decide at the end of a batch of a load which rules are broken.

A rule with ``mostly`` tolerates a share of faulty rows, and only the counts of the whole batch show whether it is
broken. Until then, a row that breaks only such rules is doubtful.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools, flags_of, int64s, numbers_of, strings
from lakehouse_lib.engine.quality import is_rule_broken
from lakehouse_lib.ingestion.gate.row_rule import RowRule

#: A row's broken rules, by their positions in ``Translation.row_rules``.
POSITIONS = pa.list_(pa.int32())


@dataclass(frozen=True)
class RuleCounts:
    """Numbers of rows by rule, in the order of the rules; the counts of several batches can be added.

    Attributes:
        broken: the rows that break the rule.
        counted: the rows to which a rule with ``mostly`` below 1 applies; 0 for other rules.
    """

    broken: tuple[int, ...]
    counted: tuple[int, ...]

    def __add__(self, other: RuleCounts) -> RuleCounts:
        return RuleCounts(
            tuple(map(sum, zip(self.broken, other.broken, strict=True))),
            tuple(map(sum, zip(self.counted, other.counted, strict=True))),
        )


@dataclass(frozen=True)
class Judgement:
    """The judgement of the row rules about a record batch.

    Attributes:
        passing: the mask of the rows that break no rule; None: all rows.
        positions: for the other rows, in their order, the positions of the rules that they break (``POSITIONS``).
        counts: the numbers of rows.
    """

    passing: pa.Array | None
    positions: pa.Array
    counts: RuleCounts


def judge(rules: Sequence[RowRule], batch: pa.RecordBatch) -> Judgement:
    """Judge a batch. If all rows pass, only the kernels of the rules run."""
    masks: dict[int, pa.Array] = {}
    counted = [0] * len(rules)
    for position, rule in enumerate(rules):
        passes = rule.passes(batch)
        if rule.mostly < 1:
            counted[position] = batch.num_rows if rule.row_filter is None else rule.applies(batch).true_count
        if passes.true_count < batch.num_rows:
            masks[position] = passes
    broken = [batch.num_rows - masks[position].true_count if position in masks else 0 for position in range(len(rules))]
    counts = RuleCounts(tuple(broken), tuple(counted))
    if not masks:
        return Judgement(None, pa.nulls(0, POSITIONS), counts)
    flags = np.stack([flags_of(mask) for mask in masks.values()], axis=1)
    passing = np.logical_and.reduce(flags, axis=1)
    breaks = ~flags[~passing]
    _, columns = np.nonzero(breaks)
    return Judgement(
        bools(passing),
        _lists(np.cumsum(breaks.sum(axis=1)), _int32s(np.array(list(masks))[columns])),
        counts,
    )


def broken_rules(rules: Sequence[RowRule], counts: RuleCounts) -> tuple[int, ...]:
    """The positions of the rules that are broken, by the counts of the whole batch.

    A doubtful row passes after all if none of the rules that it breaks is among them.
    """
    return tuple(
        position
        for position, rule in enumerate(rules)
        if is_rule_broken(counts.broken[position], counts.counted[position], rule.mostly)
    )


def violations(rules: Sequence[RowRule], positions: pa.Array, broken: Sequence[int]) -> pa.Array:
    """Each row's violations, an array of (column, reason, rule) for each row; empty: the row passes after all.

    Args:
        positions: the rules that each row breaks, as ``Judgement.positions``.
        broken: the result of ``broken_rules``.
    """
    is_broken = np.zeros(len(rules), dtype=bool)
    is_broken[list(broken)] = True
    flat = positions.flatten()
    numbers = numbers_of(flat, np.int32).astype(np.int64)
    stays = is_broken[numbers]
    before = np.concatenate([[0], np.cumsum(stays)])
    ends = np.cumsum(numbers_of(pc.list_value_length(positions), np.int32), dtype=np.int64)
    ids = strings([rule.rule.id for rule in rules])
    entries = pa.StructArray.from_arrays(
        [strings([rule.rule.column for rule in rules]), ids, ids], names=["column", "reason", "rule"]
    )
    return _lists(before[ends], entries.take(int64s(numbers[stays])))


def _lists(ends: NDArray[np.int64], values: pa.Array) -> pa.Array:
    """Lists without nulls, from the end of each list in the values."""
    return pa.ListArray.from_arrays(_int32s(np.concatenate([[0], ends])), values)


def _int32s(numbers: NDArray[np.int64]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers.astype(np.int32))])
