"""The verdicts of Great Expectations on Spark and of the gate on Arrow, rule by rule and row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.ingestion.gate import RowRule, judge
from tests.gate.random_rows import COLUMNS


@dataclass(frozen=True)
class RowVerdict:
    """The rows that break a rule, and the number of rows to which it applies."""

    broken: tuple[int, ...]
    counted: int


def spark_rows(spark: Any, rows: pa.Table, folder: Path) -> Any:
    """The rows as a DataFrame of a Parquet file, with their positions in ``__row``."""
    path = folder / "rows.parquet"
    pq.write_table(rows.append_column("__row", pa.array(range(len(rows)), pa.int64())), path)
    return spark.read.parquet(str(path))


def by_great_expectations(rules: Sequence[Rule], frame: Any) -> list[RowVerdict]:
    """The verdicts of today's gate, in one pass over the rows."""
    from pyspark.sql import functions as F

    from lakehouse_lib.engine.spark.quality_gate import Gate, _row_rule

    gate = Gate(_EmptyFrames(frame), rules, frame, [*COLUMNS, "__row"])
    assert not gate._table_rules
    validator = gate._validator(gate._batch(frame))
    of_batch = [_row_rule(rule, expectation, validator) for rule, expectation in gate._depends_on_batch]
    row_rules = {row_rule.rule.id: row_rule for row_rule in [*gate._fixed, *of_batch]}
    flags = []
    for rule in rules:
        row_rule = row_rules[rule.id]
        applies = F.lit(True) if row_rule.applies is None else F.coalesce(row_rule.applies, F.lit(False))
        flags += [row_rule.breaks, applies]
    table = frame.select(F.col("__row"), F.array(*flags).alias("flags")).orderBy("__row").collect()
    return [
        RowVerdict(
            tuple(row["__row"] for row in table if row["flags"][2 * position]),
            sum(row["flags"][2 * position + 1] for row in table),
        )
        for position in range(len(rules))
    ]


def by_arrow(rules: Sequence[RowRule], rows: pa.Table, step: int) -> list[RowVerdict]:
    """The verdicts of the gate on Arrow, which sees ``step`` rows at a time."""
    broken: list[list[int]] = [[] for _ in rules]
    counted = [0] * len(rules)
    for start in range(0, len(rows), step):
        (batch,) = rows.slice(start, step).combine_chunks().to_batches()
        judgement = judge(rules, batch)
        passing = [True] * len(batch) if judgement.passing is None else judgement.passing.to_pylist()
        failing = [start + place for place, passes in enumerate(passing) if not passes]
        for row, positions in zip(failing, judgement.positions.to_pylist(), strict=True):
            for position in positions:
                broken[position].append(row)
        for position, rule in enumerate(rules):
            counted[position] += rule.applies(batch).true_count
            assert judgement.counts.counted[position] in (0, rule.applies(batch).true_count)
    return [RowVerdict(tuple(rows_of_rule), count) for rows_of_rule, count in zip(broken, counted, strict=True)]


class _EmptyFrames:
    """A session whose empty DataFrame needs no Spark job, of which Great Expectations starts several for each rule."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def createDataFrame(self, *_: Any) -> Any:  # noqa: N802
        return self._frame.limit(0)
