"""SQL conditions built from values by sqlglot, which quotes names and literals."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from lakehouse_lib.schema import DataType, PrimitiveType

#: The dialect that ``expressions.parse`` reads.
DIALECT = "spark"
#: A condition that is true for no row.
NOTHING = "FALSE"
#: The text that errors show in place of a condition, because its values are a person's keys.
LABEL = "of the person's rows"

_INTEGER = re.compile(r"[+-]?[0-9]+")
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


def literal(value: int | str) -> str:
    """A value as a SQL literal."""
    return str(exp.convert(value).sql(dialect=DIALECT))


def is_one_of(column: str, data_type: DataType, values: Iterable[int | str]) -> str:
    """``column = v``, ``column IN (v, ...)`` or, without values, ``FALSE``; values of the column's own type.

    Raises:
        TypeError: as ``of_type``.
    """
    literals = [exp.convert(value) for value in sorted(of_type(values, data_type))]
    if not literals:
        return NOTHING
    operand = exp.column(exp.to_identifier(column, quoted=True))
    condition = operand.eq(literals[0]) if len(literals) == 1 else exp.In(this=operand, expressions=literals)
    return str(condition.sql(dialect=DIALECT))


def of_type(values: Iterable[int | str], data_type: DataType) -> set[int] | set[str]:
    """The values cast to a type; a value that the type cannot hold is dropped, because no row can have it.

    Raises:
        TypeError: the type is not a string, a whole number or a decimal.
    """
    kind = data_type.type if isinstance(data_type, PrimitiveType) else ""
    if kind == "string":
        return {str(value) for value in values}
    bits = _BITS.get(kind)
    if bits is None and not (isinstance(data_type, PrimitiveType) and data_type.decimal is not None):
        raise TypeError(f"a key column has type {data_type}; expected a string, a whole number or a decimal")
    numbers = {int(value) for value in values if isinstance(value, int) or _INTEGER.fullmatch(value.strip())}
    return {n for n in numbers if bits is None or -(2 ** (bits - 1)) <= n < 2 ** (bits - 1)}
