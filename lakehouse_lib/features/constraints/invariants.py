"""The feature invariants: conditions in the metadata of columns (PROTOCOL.md, Column Invariants)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lakehouse_lib.errors import UnsupportedFeatureError
from lakehouse_lib.features.constraints.condition_rule import condition_rule
from lakehouse_lib.features.feature import Feature, field_metadata
from lakehouse_lib.json_text import excerpt, parse_json
from lakehouse_lib.schema import Field, StructType, TableLayout

if TYPE_CHECKING:
    from lakehouse_lib.expressions import PredicateRule

_KEY = "delta.invariants"


def rules(_configuration: Mapping[str, str], layout: TableLayout, table: str | None) -> Sequence[PredicateRule]:
    """The rules of the invariants of a table.

    As in delta-spark, columns and members of structs can have invariants. Invariants of members of structs in lists and
    maps are ignored.

    Raises:
        UnsupportedFeatureError: an invariant is not a SQL condition.
        InvalidPredicateError: the condition of an invariant does not parse, or names a column that does not exist.
    """
    return [
        condition_rule(
            f"the invariant of {path} ({sql})",
            sql,
            layout.schema,
            table=table,
            way_out="Change the metadata delta.invariants of the column with the engine that wrote it",
        )
        for path, sql in _invariants(layout.schema, "", table)
    ]


def _invariants(kind: StructType, above: str, table: str | None) -> Iterator[tuple[str, str]]:
    """The paths of columns with an invariant, and their conditions."""
    for field in kind.fields:
        path = above + field.name
        if _KEY in field.metadata:
            yield path, _condition(path, field, table)
        if isinstance(field.type, StructType):
            yield from _invariants(field.type, f"{path}.", table)


def _condition(path: str, field: Field, table: str | None) -> str:
    text = field.metadata[_KEY]
    try:
        body = parse_json(text) if isinstance(text, str) else text
    except ValueError:
        body = None
    outer = body.get("expression") if isinstance(body, dict) else None
    condition = outer.get("expression") if isinstance(outer, dict) else None
    if not isinstance(condition, str):
        raise UnsupportedFeatureError(
            f"the invariant of column {path} is {excerpt(text)} (invariants); expected "
            '{"expression": {"expression": SQL}}',
            table=table,
            hint="Write the table with the engine that set the invariant",
        )
    return condition


FEATURE = Feature(
    "invariants",
    False,
    True,
    True,
    field_metadata(_KEY),
    "rows that violate an invariant are refused; the Arrow engine refuses conditions that only Spark can evaluate",
    legacy_versions=(1, 2),
    rules=rules,
)
