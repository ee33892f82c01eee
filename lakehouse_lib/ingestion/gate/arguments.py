"""The arguments of a rule, read for its translation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse_lib.engine.quality import Rule


class NotTranslatedError(Exception):
    """A rule, or a part of it, is not translated; the message is the reason. ``translate`` catches this error."""


@dataclass(frozen=True)
class Column:
    """A column that a rule names.

    Attributes:
        kind: its type in a record batch.
    """

    name: str
    kind: pa.DataType


@dataclass(frozen=True)
class Arguments:
    """The arguments of a rule about rows of a schema.

    Every method raises NotTranslatedError for a value that Great Expectations would convert, or refuse.
    """

    rule: Rule
    schema: pa.Schema

    def allow(self, *names: str) -> None:
        """Refuse arguments with other names."""
        others = [name for name in self.rule.arguments if name not in names]
        if others:
            raise NotTranslatedError(f"the argument {others[0]!r} is not translated")

    def get(self, name: str) -> Any:
        """The argument; None if it is left out."""
        return self.rule.arguments.get(name)

    def column(self, name: str = "column") -> Column:
        """The column that an argument names."""
        return column_of(self.get(name), self.schema)

    def columns(self) -> list[Column]:
        """The columns that ``column_list`` names, two or more."""
        names = self.get("column_list")
        if not isinstance(names, list) or len(names) < 2 or len(set(map(str, names))) < len(names):
            raise NotTranslatedError("column_list is not a list of several columns")
        return [column_of(name, self.schema) for name in names]

    def flag(self, name: str) -> bool:
        value = self.rule.arguments.get(name, False)
        if not isinstance(value, bool):
            raise NotTranslatedError(f"{name} is not a boolean")
        return value

    def integer(self, name: str) -> int | None:
        value = self.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise NotTranslatedError(f"{name} is not an integer")
        return value

    def number(self, name: str) -> int | float | None:
        value: int | float | None = self.get(name)
        if value is not None and not is_number(value):
            raise NotTranslatedError(f"{name} is not a number")
        return value

    def text(self, name: str) -> str:
        return text_of(self.get(name), name)

    def texts(self, name: str) -> list[str]:
        """A list of texts with at least one element."""
        values = self.get(name)
        if not isinstance(values, list) or not values:
            raise NotTranslatedError(f"{name} is not a list of texts")
        return [text_of(value, name) for value in values]

    def items(self, name: str) -> list[Any]:
        values = self.get(name)
        if not isinstance(values, list):
            raise NotTranslatedError(f"{name} is not a list")
        return values

    def mostly(self) -> float:
        value = self.rule.arguments.get("mostly", 1)
        if not is_number(value) or not 0 <= value <= 1:
            raise NotTranslatedError("mostly is not a number from 0 to 1")
        return float(value)


def column_of(name: Any, schema: pa.Schema) -> Column:
    """A column by the name that Great Expectations passes to Spark."""
    if not isinstance(name, str) or name not in schema.names or any(sign in name for sign in ".`"):
        raise NotTranslatedError(f"{name!r} is not the name of a column, without . and `")
    return Column(name, schema.field(name).type)


def text_of(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise NotTranslatedError(f"{name} is not a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotTranslatedError(f"{name} has half of a surrogate pair") from None
    return value


def is_number(value: Any) -> bool:
    """Whether a JSON value is a finite number, within the limits of a double."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False
