"""Parses the text of a registry: JSON, or YAML without aliases and tags. Duplicate keys are mistakes.

YAML is read by its core schema (YAML 1.2) without octal and hexadecimal numbers, so ``no``, ``22:00`` and ``0x10`` are
text. Values are built from YAML's events, without recursion, because a deeply nested text would crash the process in
PyYAML's composer.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakehouse_lib.store.uris import location_text

#: The place of a value: keys and positions from the top.
Place = tuple[str | int, ...]

_MOST_LEVELS = 32
#: The keys of a table with its locations.
_LOCATIONS = ("uri", "quarantine")
_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?\d{1,400}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII)
_SPECIAL_FLOAT = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class Mark(NamedTuple):
    """A position in a text: line and column, both from 1."""

    line: int
    column: int


class Mistake(NamedTuple):
    """A mistake in the form of a text.

    Attributes:
        place: the place of the value or key with the mistake.
        mark: the position of the mistake; None: unknown.
        hides_value: whether the value in this place is not read, so that it cannot be checked.
    """

    place: Place
    message: str
    mark: Mark | None
    hides_value: bool = False


class SyntaxMistake(ValueError):
    """The text is neither JSON nor YAML.

    Attributes:
        message: the problem, without its position.
    """

    def __init__(self, message: str, mark: Mark | None = None) -> None:
        super().__init__(message if mark is None else f"{message} (line {mark.line}, column {mark.column})")
        self.message = message
        self.mark = mark


@dataclass(frozen=True)
class Document:
    """The values of a text, and the mistakes in its form. If a key occurs twice, ``values`` has the first value."""

    values: Any
    mistakes: list[Mistake] = field(default_factory=list)

    def with_fewer_tables(self, without: Container[str], only_locations: Container[str]) -> Document:
        """The document without some tables and without details of other tables. Mistakes of both are left out.

        Args:
            without: the names of tables to leave out.
            only_locations: the names of tables of which only the locations remain. A table without keys stays as it is.
        """
        tables = {
            name: {key: table[key] for key in _LOCATIONS if key in table}
            if name in only_locations and isinstance(table, Mapping)
            else table
            for name, table in self.values["tables"].items()
            if name not in without
        }
        mistakes = [
            mistake
            for mistake in self.mistakes
            if mistake.place[:1] != ("tables",)
            or len(mistake.place) < 2
            or (mistake.place[1] not in without and mistake.place[1] not in only_locations)
        ]
        return Document({**self.values, "tables": tables}, mistakes)


def parse(text: str) -> Document:
    """The values of a registry.

    Raises:
        SyntaxMistake: the text is neither JSON nor YAML.
    """
    if not text.lstrip().startswith("{"):
        return _read_yaml(text, {})
    duplicates: list[str] = []  # json is faster than PyYAML, and accepts tabs and surrogates

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for key, value in pairs:
            if key in body:
                duplicates.append(key)
            body.setdefault(key, value)
        return body

    try:
        values = json.loads(text, object_pairs_hook=object_of)
    except (ValueError, RecursionError) as error:
        return _read_flow(text, error)
    if not duplicates:
        return Document(values)
    mistakes = [Mistake((), _twice(key), None) for key in duplicates]
    with contextlib.suppress(SyntaxMistake):
        mistakes = _read_yaml(_without_tabs(text), {}).mistakes or mistakes
    return Document(values, mistakes)


def marks_of(text: str) -> dict[Place, Mark]:
    """The position of each value by its place; a value in a mapping has the position of its key."""
    marks: dict[Place, Mark] = {}
    try:
        _read_yaml(_without_tabs(text) if text.lstrip().startswith("{") else text, marks)
    except SyntaxMistake:
        return {}
    return marks


def _read_flow(text: str, error: Exception) -> Document:
    """Read a text that begins with a brace as YAML. If it is not YAML either, raise the error of the JSON parser."""
    try:
        return _read_yaml(text, {})
    except SyntaxMistake as mistake:
        if isinstance(error, json.JSONDecodeError):
            raise SyntaxMistake(f"is not JSON: {error.msg}", Mark(error.lineno, error.colno)) from None
        raise mistake from None


def _without_tabs(text: str) -> str:
    """JSON as YAML with the same positions."""
    return _SURROGATE.sub("______", text.replace("\t", " "))


@dataclass
class _Level:
    """A mapping or a sequence that is being read."""

    place: Place
    values: dict[str, Any] | list[Any]
    key: str | None = None
    is_duplicate: bool = False


class _Reader:
    """Builds the values from YAML's events."""

    def __init__(self, marks: dict[Place, Mark]) -> None:
        self.marks = marks
        self.mistakes: list[Mistake] = []
        self.values: Any = None
        self._levels: list[_Level] = []
        self._skipped = 0  # levels of a key that is not text

    def read(self, event: Any) -> None:
        name = type(event).__name__
        if self._skipped:
            self._skipped += name.endswith("StartEvent") - name.endswith("EndEvent")
            return
        if name in ("MappingEndEvent", "SequenceEndEvent"):
            self._levels.pop()
        elif name in ("ScalarEvent", "AliasEvent", "MappingStartEvent", "SequenceStartEvent"):
            self._read_node(name, event, Mark(event.start_mark.line + 1, event.start_mark.column + 1))

    def _read_node(self, name: str, event: Any, mark: Mark) -> None:
        level = self._levels[-1] if self._levels else None
        if level is not None and isinstance(level.values, dict) and level.key is None:
            self._read_key(level, level.values, name, event, mark)
            return
        place = () if level is None else (*level.place, self._step(level))
        self.marks.setdefault(place, mark)
        value: Any = None
        if name == "AliasEvent":
            text = "the alias is not supported; expected the value itself, or settings in groups"
            self.mistakes.append(Mistake(place, text, mark, hides_value=True))
        elif event.tag is not None:
            self.mistakes.append(
                Mistake(place, "the tag is not supported; expected a plain value", mark, hides_value=True)
            )
        if name == "ScalarEvent":
            value = _scalar(event)
        elif name != "AliasEvent":
            value = {} if name == "MappingStartEvent" else []
            self._levels.append(_Level(place, value))
            if len(self._levels) > _MOST_LEVELS:
                raise SyntaxMistake(f"has more than {_MOST_LEVELS} levels", mark)
        if level is None:
            self.values = value
        elif isinstance(level.values, list):
            level.values.append(value)
        else:
            if not level.is_duplicate:
                level.values[str(level.key)] = value
            level.key, level.is_duplicate = None, False

    def _read_key(self, level: _Level, values: dict[str, Any], name: str, event: Any, mark: Mark) -> None:
        level.key = event.value if name == "ScalarEvent" else ""
        if name != "ScalarEvent":
            self._skipped = int(name.endswith("StartEvent"))
            level.is_duplicate = True
            self.mistakes.append(Mistake(level.place, "the key is not a text; expected a name", mark))
            return
        place = (*level.place, event.value)
        level.is_duplicate = event.value in values
        if level.is_duplicate:
            self.mistakes.append(Mistake(place, _twice(event.value), mark))
        self.marks.setdefault(place, mark)

    @staticmethod
    def _step(level: _Level) -> str | int:
        return len(level.values) if isinstance(level.values, list) else str(level.key)


def _read_yaml(text: str, marks: dict[Place, Mark]) -> Document:
    reader = _Reader(marks)
    for event in _events(text):
        reader.read(event)
    return Document(reader.values, reader.mistakes)


def _events(text: str) -> Iterator[Any]:
    import yaml

    documents = 0
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise SyntaxMistake("has two documents; expected one", _mark_of(event.start_mark))
            yield event
    except yaml.MarkedYAMLError as error:
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise SyntaxMistake(f"is not YAML: {reason}", _mark_of(error.problem_mark)) from None
    except yaml.YAMLError as error:  # a character that YAML does not permit
        position = getattr(error, "position", None)
        reason = getattr(error, "reason", "the text cannot be read")
        raise SyntaxMistake(f"is not YAML: {reason}", None if position is None else _mark_at(text, position)) from None


def _mark_of(mark: Any) -> Mark | None:
    return None if mark is None else Mark(mark.line + 1, mark.column + 1)


def _mark_at(text: str, position: int) -> Mark:
    return Mark(text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position))


def _scalar(event: Any) -> Any:
    """The value of a scalar by YAML's core schema. A scalar in quotes is text."""
    text: str = event.value
    if not event.implicit[0] or event.tag is not None:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL_FLOAT.fullmatch(text)
    return text if special is None else float(special[1] + special[2])


def _twice(key: str) -> str:
    return f"the key {location_text(key)} occurs twice in one object; remove one of the two"
