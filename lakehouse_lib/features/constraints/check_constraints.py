"""The feature checkConstraints: conditions that every row of the table satisfies (PROTOCOL.md, CHECK Constraints).

The property ``delta.constraints.NAME`` has the condition in Spark's SQL. As in delta-spark, the names of constraints do
not depend on case, and a row for which the condition is NULL violates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakehouse_lib.features.constraints.condition_rule import condition_rule
from lakehouse_lib.features.feature import Feature, property_prefix
from lakehouse_lib.schema import Schema, TableLayout

if TYPE_CHECKING:
    from lakehouse_lib.expressions import PredicateRule

#: The prefix of the properties that define constraints.
PREFIX = "delta.constraints."


def constraints(configuration: Mapping[str, str]) -> dict[str, str]:
    """The condition of each constraint, by its property. Other writers may store names that differ only in case."""
    return {key: condition for key, condition in configuration.items() if key.lower().startswith(PREFIX)}


def constraints_of(name: str, configuration: Mapping[str, str]) -> dict[str, str]:
    """The condition of each constraint with this name in any case, by its property."""
    lower_key = (PREFIX + name).lower()
    return {key: condition for key, condition in constraints(configuration).items() if key.lower() == lower_key}


def name_of(key: str) -> str:
    """The name of the constraint that a property defines."""
    return key[len(PREFIX) :]


def rule_of(
    name: str, condition: str, schema: Schema, *, table: str | None = None, way_out: str | None = None
) -> PredicateRule:
    """The rule of a constraint; ``table`` and ``way_out`` as in ``condition_rule``.

    Raises:
        InvalidPredicateError: the condition does not parse, or names a column that does not exist.
    """
    return condition_rule(f"CHECK {name} ({condition})", condition, schema, table=table, way_out=way_out)


def spark_condition(name: str, condition: str, schema: Schema, *, table: str | None = None) -> str:
    """The condition of a new constraint, as the table stores it.

    Column names in double quotes get backquotes, because delta-spark reads text in double quotes as a string; so do
    columns with the name of a function, such as ``current_date``.

    Raises:
        InvalidPredicateError: as ``rule_of``.
    """
    from lakehouse_lib.expressions.parsing.names.quoted_names import with_backquotes  # the module loads sqlglot

    rule_of(name, condition, schema, table=table)
    return with_backquotes(condition, schema)


def rules(configuration: Mapping[str, str], layout: TableLayout, table: str | None) -> Sequence[PredicateRule]:
    """The rules of the constraints of a table.

    Raises:
        InvalidPredicateError: as ``rule_of``.
    """
    return [
        rule_of(
            name_of(key),
            condition,
            layout.schema,
            table=table,
            way_out=f"Drop the constraint first: alter.drop_constraint({name_of(key)!r})",
        )
        for key, condition in constraints(configuration).items()
    ]


FEATURE = Feature(
    "checkConstraints",
    False,
    True,
    True,
    property_prefix(PREFIX),
    "rows that violate a constraint are refused; the Arrow engine refuses conditions that only Spark can evaluate",
    legacy_versions=(1, 3),
    rules=rules,
)
