"""The configuration of a subject: the tables with a person's rows, their key columns, and where to look up other keys.

Every key of the configuration is checked. Identifiers become SQL literals through sqlglot, for the type of the column
that they are compared with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StrictBool, TypeAdapter, ValidationError

from lakehouse_lib.errors import InvalidArgumentError

IdType = Literal["long", "string"]
Name = Annotated[str, Field(min_length=1)]

_EXACT = ConfigDict(extra="forbid")
_LONG = re.compile(r"[+-]?[0-9]{1,19}")
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Through:
    """A table in which a person's keys are looked up: a row with the identifier in ``key`` has a key in ``select``."""

    __pydantic_config__ = _EXACT

    table: Name
    key: Name
    select: Name
    quarantine: StrictBool = False


@dataclass(frozen=True)
class SubjectRows:
    """A table with rows of the subject: ``key`` holds the identifier or, with ``through``, values of another table.

    ``quarantine``: the table holds rejected rows, with every column as text. It does not exist before the first
    rejected row.
    """

    __pydantic_config__ = _EXACT

    table: Name
    key: Name
    through: Through | None = None
    quarantine: StrictBool = False


@dataclass(frozen=True)
class Subject:
    """A kind of person (a customer, an employee) and all tables with rows about such a person.

    Args:
        id_type: the type of an identifier: ``long`` (64-bit signed integer) or ``string``.
        rows: the tables, parents before children. Rows are erased from the last table to the first: without the
            orders, their line items cannot be found.
    """

    __pydantic_config__ = _EXACT

    id_type: IdType
    rows: Annotated[tuple[SubjectRows, ...], Field(min_length=1)]

    def value(self, subject_id: object) -> int | str:
        """The identifier as a Python value: an int for ``long``, a str for ``string``.

        Raises:
            InvalidArgumentError: the identifier is empty or a boolean, or ``id_type`` is ``long`` and it is not a
                64-bit integer.
        """
        text = subject_id if isinstance(subject_id, str) else "" if subject_id is None else str(subject_id)
        if isinstance(subject_id, bool) or not text.strip():
            raise InvalidArgumentError(
                f"subject_id is {subject_id!r}; expected an identifier of type {self.id_type}",
                hint="Give the person's identifier",
                code="DELTA_INVALID_SUBJECT",
            )
        if self.id_type == "string":
            return text
        if not _LONG.fullmatch(text) or not _LONG_MIN <= int(text) <= _LONG_MAX:
            raise InvalidArgumentError(
                f"subject_id is {subject_id!r}; expected a 64-bit integer",
                hint="Give digits only, such as 4711",
                code="DELTA_INVALID_SUBJECT",
            )
        return int(text)


_SUBJECT = TypeAdapter(Subject)


def subject_from_config(config: Mapping[str, Any]) -> Subject:
    """The subject that a configuration describes.

    A configuration is parsed JSON:

    ``{"id_type": "long" | "string", "rows": [{"table": T, "key": COLUMN, "quarantine": BOOL,
    "through": {"table": T2, "key": COLUMN, "select": COLUMN, "quarantine": BOOL}}, ...]}``; ``through`` is optional
    and ``quarantine`` defaults to false.

    Raises:
        InvalidArgumentError: a key is missing, unknown or of the wrong type; the message has its path in
            the configuration.
    """
    try:
        return _SUBJECT.validate_python(config)
    except ValidationError as error:
        wrong = error.errors()[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong["loc"])
        value = None if wrong["type"] == "missing" else wrong["input"]
        raise InvalidArgumentError(
            f"subject{place} is {value!r}", hint=wrong["msg"], code="DELTA_INVALID_SUBJECT"
        ) from error
