"""The types that SQL names in a cast."""

from __future__ import annotations

from typing import Any

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.schema import PrimitiveType

_TYPES = {
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BOOLEAN": "boolean",
    "TEXT": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPLTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
}


def type_of(tree: Any) -> PrimitiveType | None:
    """The primitive type of sqlglot's ``DataType``; None for another type, which only Spark knows."""
    name = tree.this.value if hasattr(tree.this, "value") else str(tree.this)
    if name == "DECIMAL":
        sizes = [str(size.this.this) for size in tree.expressions]
        try:
            return PrimitiveType(f"decimal({','.join(sizes) if len(sizes) == 2 else (sizes or ['10'])[0] + ',0'})")
        except (InvalidSchemaError, ValueError):  # ValueError: more digits than Python parses
            return None
    primitive = _TYPES.get(name)
    return PrimitiveType(primitive) if primitive is not None and not tree.expressions else None
