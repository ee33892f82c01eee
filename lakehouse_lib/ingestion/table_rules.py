"""The table's own conditions for rows, by which a load rejects single rows.

The intent of a batch records these conditions. So if a constraint is added or dropped between a killed run and its
redo, the redo still rejects the same rows. The quarantine may already have them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse_lib.expressions import PredicateRule
from lakehouse_lib.features.constraints.condition_rule import condition_rule
from lakehouse_lib.features.rules_of_rows import feature_rules
from lakehouse_lib.schema import Schema, text_length_rules
from lakehouse_lib.snapshot import Snapshot

#: The key of the conditions in the rules of an intent.
CONDITIONS = "conditions"


def conditions_of(snapshot: Snapshot, schema: Schema) -> dict[str, str]:
    """The CHECK constraints, invariants and lengths of CHAR and VARCHAR of a table as SQL, by their names in errors.

    Conditions that only Spark can evaluate, and conditions on columns that the write computes, are left out. The write
    checks these conditions.

    Args:
        schema: the columns of the source.
    """
    table = snapshot.store.root
    lengths = [
        condition_rule(rule.name, rule.condition, snapshot.schema, table=table)
        for rule in text_length_rules(snapshot.layout)
    ]
    return {
        rule.name: rule.predicate.text
        for rule in (*lengths, *feature_rules(snapshot.metadata, table))
        if isinstance(rule, PredicateRule)
        and not rule.needs_spark
        and rule.columns
        and all(name in schema for name in rule.columns)
    }


def rules_of(conditions: Mapping[str, str], schema: Schema, table: str) -> tuple[PredicateRule, ...]:
    """The rules of recorded conditions."""
    return tuple(condition_rule(name, sql, schema, table=table) for name, sql in conditions.items())
