"""Where a person's rows live: which tables hold them, under which key, and through which other table.

A subject is configuration, so it is checked word by word, and an identifier never becomes SQL by pasting: literals and
names are rendered by sqlglot for the type of the column they are compared with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.privacy.sql import literal

IdType = Literal["long", "string"]

_LONG = re.compile(r"[+-]?[0-9]{1,19}")
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Through:
    """The subject's rows of ``table`` (where ``key`` is the identifier) give their ``select`` to look for."""

    table: str
    key: str
    select: str
    quarantine: bool = False


@dataclass(frozen=True)
class SubjectRows:
    """The subject's rows of one table: ``key`` is the identifier, or one of the values found through another table.

    ``quarantine``: the table holds refused rows, every column as text, and exists only once there was one.
    """

    table: str
    key: str
    through: Through | None = None
    quarantine: bool = False


@dataclass(frozen=True)
class Subject:
    """A kind of person (a customer, an employee) and every place that holds rows about one.

    Args:
        id_type: what an identifier is: ``long`` (64-bit signed integer) or ``string``.
        rows: the places, from the subject to what hangs on it; rows are erased from the last to the first, because
            erasing orders before line items leaves line items that cannot be found any more.
    """

    id_type: IdType
    rows: tuple[SubjectRows, ...]

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

    def literal(self, subject_id: object) -> str:
        """The identifier as a SQL literal; raises as ``value`` does."""
        return literal(self.value(subject_id))


def subject_from_config(config: Mapping[str, Any]) -> Subject:
    """A subject from its configuration (JSON).

    ``{"id_type": "long" | "string", "rows": [{"table": T, "key": COLUMN, "quarantine": BOOL,
    "through": {"table": T2, "key": COLUMN, "select": COLUMN, "quarantine": BOOL}}, ...]}``; ``through`` is optional
    and ``quarantine`` false unless given.

    Raises:
        InvalidArgumentError: a key that is missing, unknown or of the wrong type, with its place in the configuration.
    """
    _only(config, "subject", {"id_type", "rows"})
    id_type: Any = config.get("id_type")
    if id_type not in get_args(IdType):
        raise _wrong("subject.id_type", id_type, "'long' or 'string'")
    rows = config.get("rows")
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise _wrong("subject.rows", rows, "a list of at least one {table, key}")
    return Subject(id_type, tuple(_rows(row, f"subject.rows[{i}]") for i, row in enumerate(rows)))


def _rows(body: Any, place: str) -> SubjectRows:
    _only(body, place, {"table", "key", "through", "quarantine"})
    through = body.get("through")
    if through is not None:
        _only(through, f"{place}.through", {"table", "key", "select", "quarantine"})
        table, key, select = (_name(through, name, f"{place}.through") for name in ("table", "key", "select"))
        through = Through(table, key, select, _flag(through, "quarantine", f"{place}.through"))
    return SubjectRows(
        _name(body, "table", place), _name(body, "key", place), through, _flag(body, "quarantine", place)
    )


def _only(body: Any, place: str, known: set[str]) -> None:
    if not isinstance(body, Mapping):
        raise _wrong(place, body, f"an object with {', '.join(sorted(known))}")
    unknown = sorted(set(body) - known)
    if unknown:
        raise _wrong(f"{place}.{unknown[0]}", body[unknown[0]], f"one of {', '.join(sorted(known))} and nothing else")


def _name(body: Mapping[str, Any], key: str, place: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise _wrong(f"{place}.{key}", value, "a name")
    return value


def _flag(body: Mapping[str, Any], key: str, place: str) -> bool:
    value = body.get(key, False)
    if not isinstance(value, bool):
        raise _wrong(f"{place}.{key}", value, "true or false")
    return value


def _wrong(place: str, value: object, wanted: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{place} is {value!r}", hint=f"It has to be {wanted}", code="DELTA_INVALID_SUBJECT")
