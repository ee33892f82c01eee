"""Read and check a registry, on a disk or in an object store."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from lakehouse_lib.errors import DeltaError, RegistryError, RegistryUnreadableError
from lakehouse_lib.fleet.registry import document, rules
from lakehouse_lib.fleet.registry.registry import Registry
from lakehouse_lib.store.uris import location_text


@dataclass(frozen=True)
class Problem:
    """A mistake in a registry.

    Attributes:
        key: the key with the mistake, as ``tables.orders.uri``; "": the message names the keys.
        line, column: the position of the mistake in the file, from 1; None: unknown.
        table: the table that has the mistake; None: the mistake is not in a table.
    """

    key: str
    message: str
    line: int | None = None
    column: int | None = None
    table: str | None = field(default=None, repr=False)  # a location with a secret may be in the place of a name

    def __str__(self) -> str:
        text = f"{self.key}: {self.message}" if self.key else self.message
        return text if self.line is None else f"{text} (line {self.line})"


def read_registry(
    path: str | Path, storage_options: Mapping[str, str] | None = None, *, skip_invalid_tables: bool = False
) -> Registry:
    """Read and check the registry at ``path``, a path or a URI.

    Args:
        skip_invalid_tables: leave out tables with mistakes, if everything else is valid. ``Registry.table`` raises an
            error with the mistakes of such a table.

    Raises:
        RegistryUnreadableError: the file cannot be read, or is neither JSON nor YAML.
        RegistryError: a key is unknown, duplicate, or has a value that is not valid.
    """
    name, folder, text = _read(path, storage_options)
    try:
        outcome = _validate(text, folder)
        if skip_invalid_tables and not isinstance(outcome, Registry):
            outcome = _without_invalid_tables(text, folder, name, outcome)
    except document.SyntaxMistake as mistake:
        # Not ``from mistake`` here and below: Airflow shows the whole chain of an import error.
        raise RegistryUnreadableError(f"{name}: the registry {mistake}") from None
    if isinstance(outcome, Registry):
        return outcome
    raise RegistryError("\n".join(f"{name}: {problem}" for problem in outcome))


def check_registry(path: str | Path, storage_options: Mapping[str, str] | None = None) -> list[Problem]:
    """All mistakes of a registry, sorted by line; empty: the registry is valid.

    Rules between keys, for example about conflicting locations, are checked if the keys themselves are valid.

    Raises:
        RegistryUnreadableError: the file cannot be read.
    """
    _, folder, text = _read(path, storage_options)
    try:
        outcome = _validate(text, folder)
    except document.SyntaxMistake as mistake:
        return [Problem("", f"the registry {mistake.message}", *(mistake.mark or ()))]
    return [] if isinstance(outcome, Registry) else outcome


def registry_schema() -> dict[str, Any]:
    """The JSON Schema of a registry, for editors and other programs."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Registry.model_json_schema(mode="validation"),
        "title": "lakehouse.yaml",
    }


def _read(path: str | Path, storage_options: Mapping[str, str] | None) -> tuple[str, str, str]:
    """The name of the registry for messages, its folder, and its text."""
    is_object = isinstance(path, str) and "://" in path
    name, folder, text = _read_object(str(path), storage_options) if is_object else _read_file(path)
    if not text.strip():  # another process may be writing it
        raise RegistryUnreadableError(f"{name}: the registry is empty")
    return name, folder, text


def _read_file(path: str | Path) -> tuple[str, str, str]:
    file = Path(path).absolute()
    try:
        return str(file), str(file.parent), file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RegistryUnreadableError(f"{file}: the registry cannot be read: {reason}") from error


def _read_object(location: str, storage_options: Mapping[str, str] | None) -> tuple[str, str, str]:
    from lakehouse_lib.store import open_store
    from lakehouse_lib.store.uris import parse

    try:
        parse(location)  # refuses a location that holds a secret, which messages would show
    except DeltaError as error:
        raise RegistryUnreadableError(f"the registry cannot be read: {error.description}") from error
    end_of_folder = location.rindex("/") + 1
    folder, name = location[:end_of_folder], unquote(location[end_of_folder:])
    try:
        text = open_store(folder, dict(storage_options or {})).read(name).decode()
    except (DeltaError, UnicodeError) as error:
        reason = error.description if isinstance(error, DeltaError) else "it is not UTF-8 text"
        raise RegistryUnreadableError(f"{location}: the registry cannot be read: {reason}") from error
    return location, folder, text


def _without_invalid_tables(text: str, folder: str, name: str, problems: list[Problem]) -> Registry | list[Problem]:
    """The registry without the tables that have mistakes; all mistakes, if another part of the registry has mistakes.

    The locations of these tables are checked nevertheless, because vacuum of a table would delete the files of another
    table in the same folder.
    """
    invalid: dict[str, str] = {}
    for problem in problems:
        if problem.table is None:
            return problems
        before = f"{invalid[problem.table]}\n" if problem.table in invalid else ""
        invalid[problem.table] = f"{before}{name}: {problem}"
    if not isinstance(_validate(text, folder, only_locations=invalid), Registry):
        return problems
    outcome = _validate(text, folder, without=invalid)
    if isinstance(outcome, Registry):
        outcome._invalid_tables = invalid
    return outcome


def _validate(
    text: str, folder: str, *, without: Container[str] = (), only_locations: Container[str] = ()
) -> Registry | list[Problem]:
    """The registry, or all its mistakes.

    Args:
        without: the names of tables that are left out.
        only_locations: the names of tables of which only the locations are read.
    """
    parsed = document.parse(text)
    if without or only_locations:
        parsed = parsed.with_fewer_tables(without, only_locations)
    mistakes = [
        Problem(_key(mistake.place), mistake.message, **_position(mistake.mark), table=_table(mistake.place))
        for mistake in parsed.mistakes
    ]
    try:
        registry = Registry.model_validate(parsed.values, context={"folder": folder})
    except ValidationError as error:
        marks = document.marks_of(text)
        hidden = {mistake.place for mistake in parsed.mistakes if mistake.hides_value}
        for problem in error.errors():
            place = _place(problem["loc"])
            if not any(place[:depth] in hidden for depth in range(len(place) + 1)):
                mistakes.append(_problem(problem, place, marks))
    else:
        if not mistakes:
            return registry
    return sorted(mistakes, key=lambda problem: (problem.line or 0, problem.column or 0))


def _place(loc: tuple[int | str, ...]) -> document.Place:
    """The place of pydantic's ``loc``, which has another step for the key of a mapping."""
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def _key(place: document.Place) -> str:
    """The text of a place. A step that may hold a secret, such as a location in the place of a name, is not shown."""
    steps = [str(step) for step in place]
    return ".".join(step if location_text(step) == repr(step) else "…" for step in steps)


def _problem(problem: Any, place: document.Place, marks: Mapping[document.Place, document.Mark]) -> Problem:
    marked = place
    while marked and marked not in marks:
        marked = marked[:-1]
    key = "" if problem["type"] == rules.ERROR_TYPE else _key(place)
    return Problem(
        key,
        _explain(problem),
        **_position(marks.get(marked)),
        table=None if problem["type"] == rules.ERROR_TYPE else _table(place),
    )


def _position(mark: document.Mark | None) -> dict[str, Any]:
    return {} if mark is None else mark._asdict()


def _table(place: document.Place) -> str | None:
    return str(place[1]) if len(place) > 1 and place[0] == "tables" else None


def _explain(problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return "unknown key"
    reason: str = problem["msg"].removeprefix("Value error, ")
    value = problem["input"]
    if problem["type"] in ("no_path", rules.ERROR_TYPE) or not isinstance(value, str | int | float):
        return reason
    return f"{reason} (got {location_text(value) if isinstance(value, str) else value})"
