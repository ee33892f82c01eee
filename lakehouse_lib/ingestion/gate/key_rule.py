"""A rule that keys are unique among the rows of a batch and of its table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.errors import QualityError


@dataclass(frozen=True)
class KeyRule:
    """A rule that keys are unique among the rows of a batch and of its table. It can be pickled.

    Attributes:
        columns: the columns of the key. A row with NULL in one of them passes.
    """

    rule: Rule
    columns: tuple[str, ...]


def key_rule(rule: Rule, schema: pa.Schema) -> KeyRule:
    """The rule about the keys of rows of a schema.

    Raises:
        QualityError: the rule has other arguments than its columns, or a column whose values have no exact equality.
    """
    argument = "column" if "column" in rule.arguments else "column_list"
    names = rule.arguments.get(argument)
    columns = tuple(names) if isinstance(names, list) else (names,)
    others = sorted(set(rule.arguments) - {argument})
    if others or not all(isinstance(name, str) for name in columns) or len(set(columns)) < len(columns):
        raise QualityError(
            f"the rule {rule.id} compares with the table and has the arguments {', '.join(sorted(rule.arguments))}; "
            "expected only its columns",
            hint="Leave out mostly, row_condition and ignore_row_if",
        )
    for name in columns:
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind):
            raise QualityError(
                f"the rule {rule.id} compares the column {name} with the table, and its type is {kind}; expected a "
                "type with exact equality",
                hint="Use a column of whole numbers, decimals, text, binary, dates, timestamps or booleans",
            )
    return KeyRule(rule, columns)
