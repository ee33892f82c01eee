"""Rows that only Spark can judge or write: file tasks stage them, Great Expectations judges and Spark writes them.

A batch needs Spark if its suite has a rule that is not translated (``gate``), or if its table has a constraint or a
generated column that only Spark can evaluate (``batches.files.needs_spark`` has all cases). This module imports Spark,
so a load imports this module only if it has a Spark session.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.quality import Verdict
from lakehouse_lib.engine.spark import staged_rows
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.engine.spark.quality_gate import Gate
from lakehouse_lib.engine.spark.workers import make_ready
from lakehouse_lib.ingestion.file_part import LINE_BITS, PartLines
from lakehouse_lib.ingestion.gate.patterns.runaway_patterns import check_patterns
from lakehouse_lib.ingestion.quality import read_rules
from lakehouse_lib.ingestion.quarantine import FILE_COLUMN, LINE_COLUMN
from lakehouse_lib.ingestion.tasks.parse import staged_schema
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkJudge:
    """Judges and writes staged rows with Spark. It keeps the gates of a run, because making a gate takes seconds."""

    def __init__(self, spark: SparkSession) -> None:
        self.engine = SparkEngine(spark)
        self._spark = spark
        self._gates: dict[str, Gate] = {}

    def gate(self, schema: Schema, suite: Any) -> Gate:
        """The gate of a suite.

        Raises:
            QualityError: the suite is not valid, or a pattern may take hours.
        """
        key = json.dumps([schema.json(), suite], sort_keys=True)
        if key not in self._gates:
            rules = read_rules(suite, schema.names)
            check_patterns(rules)
            make_ready(self._spark)  # some conditions of Great Expectations are Python functions
            empty = staged_rows.empty(self._spark, _staged(schema))
            self._gates[key] = Gate(self._spark, rules, empty, schema.names)
        return self._gates[key]

    def judge(self, schema: Schema, suite: Any, store: ObjectStore, paths: Sequence[str]) -> Verdict:
        """The verdict on staged rows.

        Args:
            suite: None: all rows pass.
            paths: the files of staged rows in the table's store.

        Raises:
            QualityError: the rows break a rule about the whole batch, or a rule cannot be evaluated.
        """
        rows = staged_rows.read(self._spark, store, _staged(schema), paths)
        return Verdict(rows, None, 0, {}) if suite is None else self.gate(schema, suite).judge(rows)

    def write_passing(self, verdict: Verdict, target: WriteTarget, parts: int) -> pa.Table:
        """Write the rows that break no rule, in at most ``parts`` files for each partition; returns the files table."""
        return self.engine.write(verdict.passing.coalesce(parts).drop(FILE_COLUMN, LINE_COLUMN), target)

    def write_failing(
        self, verdict: Verdict, schema: Schema, source: str, batch: int, target: WriteTarget, lines: PartLines
    ) -> pa.Table:
        """Write the rows that break a rule into the quarantine; returns the files table.

        Args:
            lines: the lines before each part of the batch's files.
        """
        failing = verdict.failing
        if len(lines.before) > 1:
            failing = staged_rows.with_file_lines(failing, LINE_COLUMN, lines.before, LINE_BITS)
        broken = staged_rows.quarantine_rows(
            failing, schema, source=source, batch=batch, file_column=FILE_COLUMN, line_column=LINE_COLUMN
        )
        return self.engine.write(broken.coalesce(1), target)


def _staged(schema: Schema) -> Schema:
    """The schema of staged rows: the table's columns, and each row's file and line."""
    return Schema.from_arrow(staged_schema(schema.to_arrow()))
