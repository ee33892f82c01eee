"""The text of a registry as plain values: JSON, or YAML without aliases. Both refuse duplicate keys."""

from __future__ import annotations

import json
from typing import Any

from lakehouse_lib.fleet.registry.errors import RegistryError

#: The place of a value: keys and positions from the top.
Place = tuple[str | int, ...]


def parse(text: str) -> Any:
    """The values of a registry.

    Raises:
        ValueError: the text is neither JSON nor YAML.
        RegistryError: a key is duplicate, or the text has an alias.
    """
    if text.lstrip().startswith("{"):  # YAML refuses some JSON, such as tabs, and is slower
        return json.loads(text, object_pairs_hook=_reject_duplicate_keys)
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
        if node is None:
            return None
        _check(node, set())
        return yaml.CSafeLoader("").construct_document(node)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def places(text: str) -> dict[Place, tuple[int, int]]:
    """The line and the column, from 1, of each value by its place; a value in a mapping has those of its key."""
    import yaml

    try:
        node = yaml.compose(text.expandtabs(), Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return {}
    marks: dict[Place, tuple[int, int]] = {}
    if node is not None:
        _mark(node, (), marks)
    return marks


def _mark(node: Any, place: Place, marks: dict[Place, tuple[int, int]]) -> None:
    marks.setdefault(place, (node.start_mark.line + 1, node.start_mark.column + 1))
    if node.id == "mapping":
        for key, value in node.value:
            inner = (*place, str(key.value))
            marks.setdefault(inner, (key.start_mark.line + 1, key.start_mark.column + 1))
            _mark(value, inner, marks)
    elif node.id == "sequence":
        for number, value in enumerate(node.value):
            _mark(value, (*place, number), marks)


def _check(node: Any, visited: set[int]) -> None:
    """Refuse duplicate keys and aliases; a few aliases of aliases could fill the memory."""
    line = node.start_mark.line + 1
    if id(node) in visited:
        raise RegistryError(
            f"line {line} is used by an alias; expected no aliases: write the value again, or use groups"
        )
    visited.add(id(node))
    if node.id == "mapping":
        keys: set[str] = set()
        for key, value in node.value:
            if key.value in keys:
                raise RegistryError(
                    f"the key {key.value!r} in line {key.start_mark.line + 1} occurs twice; remove one of the two"
                )
            keys.add(str(key.value))
            _check(value, visited)
    elif node.id == "sequence":
        for value in node.value:
            _check(value, visited)


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict; a duplicate key is an error, where ``json`` would keep the last value."""
    body: dict[str, Any] = {}
    for key, value in pairs:
        if key in body:
            raise RegistryError(f"the key {key!r} occurs twice in one object; remove one of the two")
        body[key] = value
    return body
