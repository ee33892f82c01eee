"""Read and check a registry, on a disk or in an object store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakehouse_lib.fleet.registry import document
from lakehouse_lib.fleet.registry.errors import RegistryError, RegistryUnreadableError
from lakehouse_lib.fleet.registry.registry import Registry


@dataclass(frozen=True)
class Problem:
    """A mistake in a registry.

    Attributes:
        key: the key with the mistake, as ``tables.orders.uri``; "" for the whole registry.
        line, column: its place in the file, from 1; None: the file cannot be parsed.
    """

    key: str
    message: str
    line: int | None = None
    column: int | None = None


def read_registry(path: str | Path, storage_options: Mapping[str, str] | None = None) -> Registry:
    """Read and check the registry at ``path``, a path or a URI.

    Raises:
        RegistryUnreadableError: the file cannot be read, or is neither JSON nor YAML.
        RegistryError: a key is unknown, duplicate, or has a value that is not valid.
    """
    name, folder, text = _read(path, storage_options)
    try:
        return Registry.model_validate(_parse(name, text), context={"folder": folder})
    except ValidationError as error:
        # Not ``from error``: pydantic's text quotes every value, and Airflow shows the whole chain of an import error.
        raise RegistryError("\n".join(f"{name}: {_explain(problem)}" for problem in error.errors())) from None


def check_registry(path: str | Path, storage_options: Mapping[str, str] | None = None) -> list[Problem]:
    """All mistakes of a registry, with their lines; empty: the registry is valid.

    Raises:
        RegistryUnreadableError: the file cannot be read.
    """
    name, folder, text = _read(path, storage_options)
    try:
        Registry.model_validate(_parse(name, text), context={"folder": folder})
    except ValidationError as error:
        marks = document.places(text)
        return sorted((_problem(problem, marks) for problem in error.errors()), key=lambda each: each.line or 0)
    except RegistryError as error:
        return [Problem("", str(error.args[0]).removeprefix(f"{name}: "))]
    return []


def registry_schema() -> dict[str, Any]:
    """The JSON Schema of a registry, for editors and other programs."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Registry.model_json_schema(mode="validation"),
        "title": "lakehouse.yaml",
    }


def _read(path: str | Path, storage_options: Mapping[str, str] | None) -> tuple[str, str, str]:
    """The name of the registry for messages, its folder, and its text."""
    if isinstance(path, str) and "://" in path:
        return _read_object(path, storage_options)
    file = Path(path).absolute()
    try:
        return str(file), str(file.parent), file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise RegistryUnreadableError(f"{file}: the registry cannot be read: {reason}") from error


def _read_object(location: str, storage_options: Mapping[str, str] | None) -> tuple[str, str, str]:
    from lakehouse_lib.errors import DeltaError
    from lakehouse_lib.store import open_store

    folder, _, name = location.rpartition("/")
    try:
        text = open_store(folder, dict(storage_options or {})).read(name).decode()
    except (DeltaError, UnicodeError) as error:
        raise RegistryUnreadableError(f"{name}: the registry cannot be read: {error}") from error
    return name, folder, text


def _parse(name: str, text: str) -> Any:
    try:
        return document.parse(text)
    except RegistryError as error:
        raise RegistryError(f"{name}: {error.args[0]}") from None
    except ValueError as error:
        kind = "JSON" if text.lstrip().startswith("{") else "YAML"
        raise RegistryUnreadableError(f"{name}: the registry is not {kind}: {error}") from error


def _problem(problem: Any, marks: Mapping[document.Place, tuple[int, int]]) -> Problem:
    place: document.Place = tuple(problem["loc"])
    key = ".".join(str(part) for part in place)
    message = _explain(problem).removeprefix(f"{key}: ")
    if not key:  # a rule between keys names the first of them in its text
        named = [part for part in message.replace(":", " ").split() if "." in part]
        place = tuple(named[0].split(".")) if named else ()
    while place and place not in marks:
        place = place[:-1]
    return Problem(key, message, *marks.get(place, (None, None)))


def _explain(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    reason = problem["msg"].removeprefix("Value error, ")
    value = problem["input"]
    # A location that is rejected for its scheme may hold a secret.
    shows_value = isinstance(value, str | int | float) and problem["type"] != "no_path"
    shown = f" (got {value!r})" if shows_value else ""
    return f"{key}: {reason}{shown}" if key else reason
