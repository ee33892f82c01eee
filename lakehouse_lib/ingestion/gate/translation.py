"""Translate the rules of a suite into functions of record batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.ingestion.gate import row_expectations, table_expectations
from lakehouse_lib.ingestion.gate.arguments import Arguments, NotTranslatedError
from lakehouse_lib.ingestion.gate.condition import conjunction
from lakehouse_lib.ingestion.gate.key_rule import KeyRule, key_rule
from lakehouse_lib.ingestion.gate.row_condition import row_condition
from lakehouse_lib.ingestion.gate.row_rule import RowRule
from lakehouse_lib.ingestion.gate.table_rule import TableRule
from lakehouse_lib.schema import Schema

_UNIQUE = "uniqueness is judged among all rows of a batch"
_ORDERED = "the rule depends on the order of all rows of a batch"
_REASONS = {
    "expect_column_values_to_be_unique": _UNIQUE,
    "expect_compound_columns_to_be_unique": _UNIQUE,
    "expect_column_values_to_be_increasing": _ORDERED,
    "expect_column_values_to_be_decreasing": _ORDERED,
}


@dataclass(frozen=True)
class UntranslatedRule:
    """A rule that Great Expectations judges on Spark.

    Attributes:
        reason: why it is not translated.
    """

    rule: Rule
    reason: str


@dataclass(frozen=True)
class Translation:
    """The rules of a suite, by how they are judged. It can be pickled.

    Attributes:
        row_rules: judged by ``judge``, in the order of their columns in the schema; rules about no column are first.
        table_rules: measured by record batch.
        untranslated: judged by Great Expectations.
        key_rules: judged by the keys of the batch and of the table.
    """

    row_rules: tuple[RowRule, ...]
    table_rules: tuple[TableRule, ...]
    untranslated: tuple[UntranslatedRule, ...]
    key_rules: tuple[KeyRule, ...] = ()


def translate(rules: Sequence[Rule], schema: Schema) -> Translation:
    """Translate rules for record batches of a schema, in the types of ``schema.to_arrow()``.

    A rule is translated only if it always has the same verdict as in Great Expectations on Spark, in a session in UTC.
    A rule that is not valid is in ``untranslated``, without an error, and Great Expectations refuses it.

    Raises:
        QualityError: a rule that compares with the table is not valid; Great Expectations does not know such rules.
    """
    arrow = schema.to_arrow()
    row_rules: list[RowRule] = []
    table_rules: list[TableRule] = []
    untranslated: list[UntranslatedRule] = []
    for rule in rules:
        if rule.is_against_table:
            continue
        arguments = Arguments(rule, arrow)
        try:
            if rule.type in row_expectations.EXPECTATIONS:
                row_rules.append(_row_rule(arguments, row_expectations.EXPECTATIONS[rule.type], schema))
            elif rule.type in table_expectations.EXPECTATIONS:
                measure = table_expectations.EXPECTATIONS[rule.type](arguments)
                table_rules.append(TableRule(rule, row_condition(arguments, schema), measure))
            else:
                untranslated.append(UntranslatedRule(rule, _REASONS.get(rule.type, f"{rule.type} is not translated")))
        except NotTranslatedError as refusal:
            untranslated.append(UntranslatedRule(rule, str(refusal)))
    row_rules.sort(key=lambda row_rule: arrow.get_field_index(row_rule.rule.column or ""))
    key_rules = tuple(key_rule(rule, arrow) for rule in rules if rule.is_against_table)
    return Translation(tuple(row_rules), tuple(table_rules), tuple(untranslated), key_rules)


def _row_rule(arguments: Arguments, read: row_expectations.Reader, schema: Schema) -> RowRule:
    expected, counted = read(arguments)
    condition = row_condition(arguments, schema)
    if condition is not None:
        counted = [*counted, condition]
    return RowRule(arguments.rule, arguments.mostly(), conjunction(counted), expected)
