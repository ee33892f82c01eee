"""The values of JSON objects: their texts, and nested columns of them.

The plain values inside a nested value are cast from their texts, as the values of plain columns are. So the same rules
apply. A value that does not fit is reported with the path of its member, such as ``items.element.price``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.nested import without_nulls
from lakehouse_lib.arrow.values import bools, flags_of, null_scalar, numbers_of, strings
from lakehouse_lib.ingestion.limits import BEYOND_YEARS, MUST_NOT_BE_NULL, beyond_years
from lakehouse_lib.ingestion.sources.blocks import NestedColumn
from lakehouse_lib.ingestion.sources.casts import from_text, type_name

#: The largest number of unknown members of a struct that are named in a block; a hostile file has many names.
MOST_NAMES = 100
#: The reason of the rows with other unknown members.
MANY_UNKNOWN = "members that are not in the schema"


class Number(float):
    """A number with its text in the file, so that a decimal keeps its digits."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class NestedTexts:
    """The JSON texts of a nested column, which are made only for the rows that ``take`` selects."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def take(self, rows: pa.Array) -> pa.Array:
        return strings([plain_text(self._values[row]) for row in rows.to_pylist()])


def is_nested(value: Any) -> bool:
    """Whether a value is an object or an array."""
    return isinstance(value, (dict, list))


def plain_text(value: Any) -> str | None:
    """The text of a value as a cell: a string without quotes; None for null."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Number):
        return value.text
    return json_text(value) if is_nested(value) else _ENCODE(value)


def json_text(value: Any) -> str:
    """The JSON text of a value of any depth; numbers keep their digits."""
    texts: list[str] = []
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            members = [(_Sign(", "), _Sign(f"{_ENCODE(name)}: "), member) for name, member in node.items()]
            pending += [_Sign("}"), *reversed(list(chain.from_iterable(members))[1:]), _Sign("{")]
        elif isinstance(node, list):
            pending += [_Sign("]"), *reversed([part for item in node for part in (_Sign(", "), item)][1:]), _Sign("[")]
        elif isinstance(node, _Sign):
            texts.append(node)
        else:
            texts.append(node.text if isinstance(node, Number) else _ENCODE(node))
    return "".join(texts)


class _Sign(str):
    """A part of a JSON text between values."""

    __slots__ = ()


_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def nested_column(values: Sequence[Any], field: pa.Field) -> NestedColumn:
    """The typed column of the values of a key, one value a row, with their faults."""
    faults = _Faults()
    column = _cells(values, field.type, np.arange(len(values)), field.name, faults)
    return NestedColumn(column, faults.checks(len(values)))


def without_misfits(nested: NestedColumn, name: str, values: Sequence[Any]) -> tuple[NestedColumn, pa.Array]:
    """The column with NULL in faulty rows, and the members of the column ``_rescued`` with the values of these rows."""
    wrong = np.logical_or.reduce([check[2] for check in nested.checks])
    start = json_text(name)
    members = [f"{start}:{json_text(value)}" if bad else None for value, bad in zip(values, wrong, strict=True)]
    column = pc.if_else(bools(wrong), null_scalar(nested.column.type), nested.column)
    return NestedColumn(column, ()), strings(members)


class _Faults:
    """The faults in the rows of a column, by path and reason."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], list[NDArray[np.int64]]] = {}

    def add(self, path: str, reason: str, rows: NDArray[np.int64]) -> None:
        if len(rows):
            self._rows.setdefault((path, reason), []).append(rows)

    def checks(self, count: int) -> list[tuple[str, str, NDArray[np.bool_]]]:
        """The faults as checks of a block with ``count`` rows."""
        checks = []
        for (path, reason), rows in self._rows.items():
            faulty = np.zeros(count, bool)
            faulty[np.concatenate(rows)] = True
            checks.append((path, reason, faulty))
        return checks


def _cells(values: Sequence[Any], kind: pa.DataType, rows: NDArray[np.int64], path: str, faults: _Faults) -> pa.Array:
    """The typed array of some values; NULL for those that do not fit.

    Args:
        rows: the row that each value is in.
    """
    if pa.types.is_struct(kind):
        return _structs(_only(dict, values, "not a JSON object", rows, path, faults), kind, rows, path, faults)
    if pa.types.is_map(kind):
        return _maps(_only(dict, values, "not a JSON object", rows, path, faults), kind, rows, path, faults)
    if pa.types.is_list(kind):
        return _lists(_only(list, values, "not a JSON array", rows, path, faults), kind, rows, path, faults)
    faults.add(path, "not a plain value", rows[_flags(map(is_nested, values), len(values))])
    cells, wrong = from_text(strings([None if is_nested(value) else plain_text(value) for value in values]), kind)
    faults.add(path, f"not a valid {type_name(kind)}", rows[wrong])
    faults.add(path, BEYOND_YEARS, rows[beyond_years(cells)])
    return cells


def _only(
    kind: type, values: Sequence[Any], reason: str, rows: NDArray[np.int64], path: str, faults: _Faults
) -> list[Any]:
    """The values of a class; None for others, which are faults."""
    wrong = _flags((value is not None and not isinstance(value, kind) for value in values), len(values))
    faults.add(path, reason, rows[wrong])
    return [value if isinstance(value, kind) else None for value in values]


def _structs(objects: list[Any], kind: pa.StructType, rows: NDArray[np.int64], path: str, faults: _Faults) -> pa.Array:
    _add_unknown(objects, {member.name for member in kind}, rows, path, faults)
    present = _flags((value is not None for value in objects), len(objects))
    children = []
    for member in kind:
        values = [None if value is None else value.get(member.name) for value in objects]
        children.append(_members(values, member, present, rows, f"{path}.{member.name}", faults))
    return pa.Array.from_buffers(kind, len(objects), [bools(present).buffers()[1]], children=children)


def _add_unknown(objects: list[Any], names: set[str], rows: NDArray[np.int64], path: str, faults: _Faults) -> None:
    """Add a fault for each member of the objects that is not in the schema."""
    unknown: dict[str, list[int]] = {}
    unnamed: list[int] = []
    for row, value in zip(rows, objects, strict=True):
        for name in () if value is None or names.issuperset(value) else value:
            if name not in names:
                is_named = name in unknown or len(unknown) < MOST_NAMES
                (unknown.setdefault(name, []) if is_named else unnamed).append(row)
    for name in sorted(unknown):
        faults.add(f"{path}.{name}", "not a column of the schema", np.array(unknown[name]))
    faults.add(path, MANY_UNKNOWN, np.array(unnamed))


def _lists(lists: list[Any], kind: pa.ListType, rows: NDArray[np.int64], path: str, faults: _Faults) -> pa.Array:
    shape, rows = _shape(lists, rows)
    items = [item for value in lists if value is not None for item in value]
    elements = _members(items, kind.value_field, True, rows, f"{path}.element", faults)
    return pa.Array.from_buffers(kind, len(lists), shape, children=[elements])


def _maps(maps: list[Any], kind: pa.MapType, rows: NDArray[np.int64], path: str, faults: _Faults) -> pa.Array:
    owners = np.repeat(np.arange(len(maps)), _lengths(maps))
    shape, rows = _shape(maps, rows)
    keys = _cells([key for value in maps for key in value or ()], kind.key_type, rows, f"{path}.key", faults)
    if not pa.types.is_string(kind.key_type):  # several texts, such as 1 and 01, may be one key
        faults.add(f"{path}.key", "a key more than once", rows[_duplicates(owners, keys)])
    values = [item for value in maps for item in (value or {}).values()]
    items = _members(values, kind.item_field, True, rows, f"{path}.value", faults)
    # A null key crashes pyarrow and its process. Only faulty rows have null keys.
    entries = pa.StructArray.from_arrays([without_nulls(keys), items], fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(kind, len(maps), shape, children=[entries])


def _duplicates(owners: NDArray[np.int64], keys: pa.Array) -> NDArray[np.bool_]:
    """A mask of the keys that their map has already."""
    if pa.types.is_nested(keys.type):  # no text fits a nested key
        return np.zeros(len(keys), bool)
    codes = numbers_of(keys.dictionary_encode("encode").indices, np.int32)
    pairs = owners * (len(keys) + 1) + codes
    duplicates = np.ones(len(keys), bool)
    duplicates[np.unique(pairs, return_index=True)[1]] = False
    return duplicates & flags_of(keys.is_valid())


def _members(
    values: list[Any],
    member: pa.Field,
    present: NDArray[np.bool_] | bool,
    rows: NDArray[np.int64],
    path: str,
    faults: _Faults,
) -> pa.Array:
    """The values of a member of structs, lists or maps; ``present`` is a mask of those whose parent is not NULL."""
    if not member.nullable:
        missing = _flags((value is None for value in values), len(values)) & present
        faults.add(path, MUST_NOT_BE_NULL, rows[missing])
    return _cells(values, member.type, rows, path, faults)


def _shape(values: list[Any], rows: NDArray[np.int64]) -> tuple[list[pa.Buffer], NDArray[np.int64]]:
    """The buffers of a list or map array, and the row of each of its entries."""
    lengths = _lengths(values)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    present = _flags((value is not None for value in values), len(values))
    return [bools(present).buffers()[1], pa.py_buffer(ends)], np.repeat(rows, lengths)


def _lengths(values: list[Any]) -> NDArray[np.int64]:
    return np.fromiter((len(value or ()) for value in values), np.int64, len(values))


def _flags(flags: Any, count: int) -> NDArray[np.bool_]:
    return np.fromiter(flags, bool, count)
