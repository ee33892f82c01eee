"""Random suites and batches, judged by Great Expectations on Spark and by the gate on Arrow."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lakehouse_lib.ingestion.gate import RowRule, TableRule, translate
from lakehouse_lib.schema import Schema
from tests.gate import judges
from tests.gate.random_rows import NESTED, SCHEMA, random_rows
from tests.gate.random_rules import random_rule, random_table_rule

ROWS = 40
#: Suites of one round are judged on the same rows, in one pass of Spark.
SUITES = 100


@dataclass
class Tally:
    """What rounds have compared, and where the verdicts differ."""

    suites: int = 0
    translated: int = 0
    untranslated: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.suites += other.suites
        self.translated += other.translated
        self.untranslated += other.untranslated
        self.findings += other.findings


def play(spark: Any, seed: int, suites: int = SUITES) -> Tally:
    """Compare the verdicts on random suites; a seed always gives the same rows and suites.

    The time zone of the process and of the session is UTC.
    """
    random = Random(seed)
    rows = random_rows(random, ROWS)
    schema = SCHEMA
    if random.random() < 0.5:
        rows = rows.drop_columns(NESTED)
        schema = Schema.from_arrow(rows.schema)
    tally = Tally(suites)
    translations = []
    for number in range(suites):
        rules = [random_rule(random, f"{number}.{position}") for position in range(random.randint(1, 3))]
        if random.random() < 0.3:
            rules.append(random_table_rule(random, f"{number}.table"))
        rules = [rule for rule in rules if rule.column is None or rule.column in schema]
        translation = pickle.loads(pickle.dumps(translate(rules, schema)))
        translations.append(translation)
        tally.translated += len(translation.row_rules) + len(translation.table_rules)
        tally.untranslated += len(translation.untranslated)
    row_rules: list[RowRule] = [rule for translation in translations for rule in translation.row_rules]
    table_rules: list[TableRule] = [rule for translation in translations for rule in translation.table_rules]

    def report(what: str) -> None:
        tally.findings.append(f"seed {seed}: {what}")

    step = random.choice([1, 7, ROWS])
    with tempfile.TemporaryDirectory() as folder:
        frame = judges.spark_rows(spark, rows, Path(folder))
        expected = _each(judges.by_great_expectations, row_rules, frame, report)
        expected_tables = _each(judges.tables_by_great_expectations, table_rules, frame, report)
    for rule, is_broken, is_broken_here in zip(
        table_rules, expected_tables, judges.tables_by_arrow(table_rules, rows, step), strict=True
    ):
        if is_broken is not None and is_broken != is_broken_here:
            report(f"{rule.rule} is {'broken' if is_broken else 'kept'} by Great Expectations only")
    at = 0
    for translation in translations:
        rules_of_suite = translation.row_rules
        expected_of_suite = expected[at : at + len(rules_of_suite)]
        at += len(rules_of_suite)
        verdicts, violations = judges.by_arrow(rules_of_suite, rows, step)
        before = len(tally.findings)
        for row_rule, verdict, our_verdict in zip(rules_of_suite, expected_of_suite, verdicts, strict=True):
            if verdict is not None and verdict != our_verdict:
                report(f"{row_rule.rule}: Great Expectations {verdict}, the gate on Arrow {our_verdict}")
        if None not in expected_of_suite and len(tally.findings) == before:
            plain = [row_rule.rule for row_rule in rules_of_suite]
            if violations != judges.expected_violations(plain, expected_of_suite):
                report(f"the violations of {', '.join(map(str, plain))} differ: {violations}")
    return tally


def _each(
    verdicts_of: Callable[[Sequence[Any], Any], list[Any]],
    rules: Sequence[RowRule | TableRule],
    frame: Any,
    report: Callable[[str], None],
) -> list[Any]:
    """The verdict on each rule; None, and a report, for a rule that was translated and that Spark does not evaluate."""
    if not rules:
        return []
    try:
        return verdicts_of([rule.rule for rule in rules], frame)
    except Exception as error:
        if len(rules) == 1:
            report(f"{rules[0].rule} is translated, and Great Expectations fails: {str(error)[:300]}")
            return [None]
        middle = len(rules) // 2
        return [
            verdict for half in (rules[:middle], rules[middle:]) for verdict in _each(verdicts_of, half, frame, report)
        ]
