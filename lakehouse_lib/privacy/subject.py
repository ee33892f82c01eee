"""Where a person's rows live: which tables hold them, under which key, and through which other table.

A subject is configuration, so it is checked word by word, and an identifier never becomes SQL by pasting: literals and
names are rendered by sqlglot for the type of the column they are compared with.
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
    """The subject's rows of ``table`` (where ``key`` is the identifier) give their ``select`` to look for."""

    __pydantic_config__ = _EXACT

    table: Name
    key: Name
    select: Name
    quarantine: StrictBool = False


@dataclass(frozen=True)
class SubjectRows:
    """The subject's rows of one table: ``key`` is the identifier, or one of the values found through another table.

    ``quarantine``: the table holds refused rows, every column as text, and exists only once there was one.
    """

    __pydantic_config__ = _EXACT

    table: Name
    key: Name
    through: Through | None = None
    quarantine: StrictBool = False


@dataclass(frozen=True)
class Subject:
    """A kind of person (a customer, an employee) and every place that holds rows about one.

    Args:
        id_type: what an identifier is: ``long`` (64-bit signed integer) or ``string``.
        rows: the places, from the subject to what hangs on it; rows are erased from the last to the first, because
            erasing orders before line items leaves line items that cannot be found any more.
    """

    __pydantic_config__ = _EXACT

    id_type: IdType
    rows: Annotated[tuple[SubjectRows, ...], Field(min_length=1)]

    def value(self, subject_id: object) -> int | str:
        """The identifier, checked: an int for ``long``, a str for ``string``.

        Raises:
            InvalidArgumentError: empty, or no 64-bit integer where one is asked for.
        """
        text = subject_id if isinstance(subject_id, str) else "" if subject_id is None else str(subject_id)
        if isinstance(subject_id, bool) or not text.strip():
            raise InvalidArgumentError(
                f"{subject_id!r} is no identifier of a subject",
                hint=f"Give the identifier, a {self.id_type}",
                code="DELTA_INVALID_SUBJECT",
            )
        if self.id_type == "string":
            return text
        if not _LONG.fullmatch(text) or not _LONG_MIN <= int(text) <= _LONG_MAX:
            raise InvalidArgumentError(
                f"{subject_id!r} is no identifier of a subject: it has to be a 64-bit integer",
                hint="Give digits only, such as 4711",
                code="DELTA_INVALID_SUBJECT",
            )
        return int(text)


_SUBJECT = TypeAdapter(Subject)


def subject_from_config(config: Mapping[str, Any]) -> Subject:
    """A subject from its configuration (JSON).

    ``{"id_type": "long" | "string", "rows": [{"table": T, "key": COLUMN, "quarantine": BOOL,
    "through": {"table": T2, "key": COLUMN, "select": COLUMN, "quarantine": BOOL}}, ...]}``; ``through`` is optional
    and ``quarantine`` false unless given.

    Raises:
        InvalidArgumentError: a key that is missing, unknown or of the wrong type, with its place in the configuration.
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
