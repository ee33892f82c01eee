"""CHAR(n) and VARCHAR(n): the row rule for the longest text of a column.

The type of such a column is ``string``. Spark keeps the declared type in the metadata of the top-level column, as text:
``varchar(20)`` or ``struct<name:varchar(20),items:array<char(3)>>``. For CHAR, too, the rule limits only the length.
Spark pads the values of a CHAR column when it reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, literal
from lakehouse_lib.schema.rows.places import PlaceRule, condition_at, parts_of, rows_at
from lakehouse_lib.schema.table_layout import TableLayout
from lakehouse_lib.schema.types import ArrayType, DataType, MapType, StructType

_DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_LIMITED = re.compile(r"(var)?char\((\d+)\)", re.IGNORECASE)


@dataclass(frozen=True)
class TextLength(PlaceRule):
    """A rule that no text at a place in a column has more characters than its declared type allows.

    Attributes:
        declared: the declared type, such as ``VARCHAR(20)``.
        limit: the largest number of characters (code points).
    """

    declared: str = field(kw_only=True)
    limit: int = field(kw_only=True)

    @property
    def name(self) -> str:
        """The declared type and the dotted path."""
        return f"{self.declared} {self.place}"

    @property
    def condition(self) -> str:
        """The condition in Spark's SQL."""
        return condition_at(
            self.column, self.kind, self.path, lambda value: f"({value} IS NULL OR LENGTH({value}) <= {self.limit})"
        )

    def violations(self, rows: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows have a longer text at this place."""
        return rows_at(rows.column(self.column), self.path, self._are_longer)

    def _are_longer(self, values: pa.Array) -> NDArray[np.bool_]:
        is_longer = pc.greater(pc.utf8_length(values), literal(self.limit, pa.int32()))
        return flags_of(pc.fill_null(is_longer, literal(False, pa.bool_())))


def text_length_rules(layout: TableLayout) -> list[TextLength]:
    """A rule for each place of a table whose declared type is CHAR or VARCHAR, in the schema's order.

    Members that the declared type of a column does not have, because they were added later, have no limit.
    """
    return [
        TextLength(column.name, column.type, path, declared=declared.upper(), limit=limit)
        for column in layout.schema.fields
        for path, declared, limit in _limits(column.type, str(column.metadata.get(_DECLARED_TYPE, "")))
    ]


def _limits(kind: DataType, declared: str) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """The path, the declared type and the limit of each text in a type with a limit."""
    match = _LIMITED.fullmatch(declared)
    if match is not None and str(kind) == "string":
        yield (), declared, int(match[2])
    inner_types = _inner_types(kind, declared)
    for name, inner, _ in parts_of(kind):
        for path, text, limit in _limits(inner, inner_types.get(name, "")):
            yield (name, *path), text, limit


def _inner_types(kind: DataType, declared: str) -> dict[str, str]:
    """The declared types of the parts of ``array<...>``, ``map<...>`` or ``struct<...>``."""
    word, _, inner = declared.partition("<")
    if not inner.endswith(">"):
        return {}
    parts = _split(inner[:-1])
    if isinstance(kind, StructType) and word == "struct":
        return dict(part.split(":", 1) for part in parts if ":" in part)
    if isinstance(kind, ArrayType) and word == "array":
        return {"element": inner[:-1]}
    if isinstance(kind, MapType) and word == "map" and len(parts) == 2:
        return {"key": parts[0], "value": parts[1]}
    return {}


def _split(text: str) -> list[str]:
    """The parts between the commas that are not within brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts
