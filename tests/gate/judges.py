"""The verdicts of Great Expectations on Spark and of the gate on Arrow, rule by rule and row by row."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.engine.quality import Rule, is_rule_broken
from lakehouse_lib.ingestion.gate import RowRule, TableRule, broken_rules, judge, violations
from tests.gate.random_rows import COLUMNS

#: Settings of a session. Spark's filter of Parquet files by their statistics loses rows if a condition has NaN or -0.0.
SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.filterPushdown": "false"}

#: The violations of each row of a load that fails, by its position: (column, rule).
Violations = dict[int, list[tuple[str | None, str]]]


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
    """The verdicts of the gate on Spark, in one pass over the rows."""
    from pyspark.sql import functions as F

    from lakehouse_lib.engine.spark.quality_gate import Gate, _row_rule

    with _no_jobs():
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


def tables_by_great_expectations(rules: Sequence[Rule], frame: Any) -> list[bool]:
    """For each rule about the batch as a whole, whether it is broken, by Great Expectations' own validation."""
    from lakehouse_lib.engine.spark.quality_gate import Gate, _exception, _expectation

    frame = frame.drop("__row")
    gate = Gate(_EmptyFrames(frame), [], frame, list(COLUMNS))
    expectations = [_expectation(rule) for rule in rules]
    results = gate._validator(gate._batch(frame)).graph_validate([each.configuration for each in expectations])
    broken = {}
    for result in results:
        problem = _exception(result.exception_info)
        assert problem is None, f"{result.expectation_config}: {problem}"
        broken[result.expectation_config.meta["rule_id"]] = not result.success
    return [broken[rule.id] for rule in rules]


def expected_violations(rules: Sequence[Rule], verdicts: Sequence[RowVerdict]) -> Violations:
    """The violations of a suite, as the gate on Spark decides them from the verdicts of its rules."""
    by_row: Violations = {}
    order = sorted(
        range(len(rules)), key=lambda place: list(COLUMNS).index(rules[place].column) if rules[place].column else -1
    )
    for place in order:
        rule, verdict = rules[place], verdicts[place]
        mostly = float(rule.arguments.get("mostly", 1))
        if is_rule_broken(len(verdict.broken), verdict.counted, mostly):
            for row in verdict.broken:
                by_row.setdefault(row, []).append((rule.column, rule.id))
    return by_row


def by_arrow(rules: Sequence[RowRule], rows: pa.Table, step: int) -> tuple[list[RowVerdict], Violations]:
    """The verdicts of the gate on Arrow, which sees ``step`` rows at a time."""
    broken: list[list[int]] = [[] for _ in rules]
    counted = [0] * len(rules)
    failing: list[int] = []
    judgements = []
    for start in range(0, len(rows), step):
        (batch,) = rows.slice(start, step).combine_chunks().to_batches()
        judgement = judge(rules, batch)
        judgements.append(judgement)
        passing = [True] * len(batch) if judgement.passing is None else judgement.passing.to_pylist()
        places = [start + place for place, passes in enumerate(passing) if not passes]
        failing += places
        for row, positions in zip(places, judgement.positions.to_pylist(), strict=True):
            assert positions
            for position in positions:
                broken[position].append(row)
        for position, rule in enumerate(rules):
            counted[position] += rule.applies(batch).true_count
    verdicts = [RowVerdict(tuple(rows_of_rule), count) for rows_of_rule, count in zip(broken, counted, strict=True)]
    total = sum((judgement.counts for judgement in judgements[1:]), judgements[0].counts)
    for verdict, rule, rows_broken, rows_counted in zip(verdicts, rules, total.broken, total.counted, strict=True):
        assert (rows_broken, rows_counted) == (len(verdict.broken), verdict.counted if rule.mostly < 1 else 0)
    decided = broken_rules(rules, total)
    lists = [entry for judgement in judgements for entry in violations(rules, judgement.positions, decided).to_pylist()]
    by_row = {
        row: [(entry["column"], entry["rule"]) for entry in entries]
        for row, entries in zip(failing, lists, strict=True)
        if entries
    }
    return verdicts, by_row


def tables_by_arrow(rules: Sequence[TableRule], rows: pa.Table, step: int) -> list[bool]:
    """The same by the gate on Arrow, which merges the states of ``step`` rows each."""
    batches = [rows.slice(start, step).combine_chunks().to_batches()[0] for start in range(0, len(rows), step)]
    states = [[pickle.loads(pickle.dumps(rule.measure(batch))) for batch in batches] for rule in rules]
    return [rule.verdict(rule.merge(of_rule)) is not None for rule, of_rule in zip(rules, states, strict=True)]


@contextmanager
def _no_jobs() -> Iterator[None]:
    """Let Great Expectations start no Spark jobs for conditions; it counts all rows for each, and ignores the count."""
    from great_expectations.execution_engine import SparkDFExecutionEngine

    def zeros(_: Any, metric_fn_bundle: list[Any]) -> dict[Any, int]:
        metrics = [metric.metric_configuration for metric in metric_fn_bundle]
        assert {metric.metric_name for metric in metrics} == {"table.row_count"}
        return {metric.id: 0 for metric in metrics}

    with patch.object(SparkDFExecutionEngine, "resolve_metric_bundle", zeros):
        yield


class _EmptyFrames:
    """A session whose empty DataFrame has the schema of another one."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def createDataFrame(self, *_: Any) -> Any:
        return self._frame.limit(0)
