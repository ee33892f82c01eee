"""Infer the narrowest type, which may be nested, that fits all values of a key of JSON objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakehouse_lib.arrow.types import VARIANT
from lakehouse_lib.arrow.values import strings
from lakehouse_lib.ingestion.inference import additions
from lakehouse_lib.ingestion.inference.additions import new_member
from lakehouse_lib.ingestion.inference.column import InferredColumn
from lakehouse_lib.ingestion.sources.blocks import refusal
from lakehouse_lib.ingestion.sources.source_format import SourceFormat

#: Objects and arrays that are nested deeper have no type: DuckDB's time to read a type doubles with each level, and 22
#: levels take 18 seconds.
_MOST_LEVELS = 16


@dataclass
class FieldLimit:
    """The limit of the columns and members that a file adds to the table.

    Attributes:
        file: the name of the file.
        remaining: the number of columns and members that it may still add.
    """

    file: str
    remaining: int

    def count(self, path: str, siblings: int) -> None:
        """Count a new column or member.

        Args:
            siblings: the number of members that its struct already has; 0 for a column.

        Raises:
            SourceRefusedError: the file adds more than ``MOST_COLUMNS``, or the struct already has so many members.
        """
        if siblings >= additions.MOST_COLUMNS:
            raise refusal(
                self.file, [f"{path} is member {siblings + 1} of its struct; expected {additions.MOST_COLUMNS} at most"]
            )
        if not self.remaining:
            raise refusal(self.file, [f"{path} is field {additions.MOST_COLUMNS + 1} of those to add to the table"])
        self.remaining -= 1


class InferredValue:
    """The values of a key, added block by block. They are plain values, objects or arrays."""

    def __init__(
        self,
        path: str,
        source_format: SourceFormat,
        own: pa.DataType | None = None,
        *,
        accepts: Callable[[str], bool] | None = None,
        level: int = 0,
    ) -> None:
        """Begin without values.

        Args:
            path: the path of the key, such as ``items.element.price``; empty for the rows themselves.
            own: the nested type of the key in the schema, which only gets new members; None: the key is new.
            accepts: returns whether a name is valid for a new member.
            level: the number of objects and arrays around the values.
        """
        self._path = path
        self._format = source_format
        self._own = own
        self._accepts = accepts or _is_member_name
        self._level = level
        self._kinds: set[type] = set() if own is None else {list if pa.types.is_list(own) else dict}
        self._is_settled = own is not None
        self._texts = InferredColumn(path, source_format)
        self._members: dict[str, InferredValue] = {}
        self._elements: InferredValue | None = None
        fields = own if own is not None and pa.types.is_struct(own) else ()
        self._own_fields: Mapping[str, pa.Field] = {field.name: field for field in fields}
        self._names = {name.lower() for name in self._own_fields}

    @property
    def type(self) -> pa.DataType | None:
        """The narrowest type of the values; string for a key that is always null; None: no type holds all values."""
        own = self._own
        if len(self._kinds) > 1:
            return None
        if list in self._kinds:
            element = self._element_type(pa.string() if own is None else own.value_type)
            if element is None:
                return None
            return pa.list_(pa.field("element", element) if own is None else own.value_field.with_type(element))
        if own is not None and pa.types.is_map(own):
            return pa.map_(own.key_type, own.item_field.with_type(self._element_type(own.item_type)))
        return self._struct() if dict in self._kinds else self._texts.type

    @property
    def additions(self) -> int:
        """The number of new members, at any depth."""
        inner = [*self._members.values(), *([] if self._elements is None else [self._elements])]
        return len(self._members.keys() - self._own_fields.keys()) + sum(value.additions for value in inner)

    def add(self, values: Sequence[Any], limit: FieldLimit) -> None:
        """Add values: objects, arrays, texts (also of numbers), booleans, and None.

        Raises:
            SourceRefusedError: the file adds too many members (``FieldLimit``).
        """
        by_kind: dict[type, list[Any]] = {}
        for value in values:
            if value is not None:
                by_kind.setdefault(_kind(value), []).append(value)
        if not self._is_settled:
            self._kinds |= by_kind.keys()
            if self._level == _MOST_LEVELS and not self._kinds <= {str}:
                self._kinds = {dict, list}
        if len(self._kinds) != 1:
            return
        (kind,) = self._kinds
        chosen = by_kind.get(kind, [])
        if kind is str:
            self._texts.add(strings([str(value).lower() if isinstance(value, bool) else value for value in chosen]))
        elif kind is list:
            self._add_elements([element for array in chosen for element in array], limit)
        elif self._own is not None and pa.types.is_map(self._own):
            self._add_elements([element for mapping in chosen for element in mapping.values()], limit)
        else:
            self._add_members(chosen, limit)

    def settle(self) -> None:
        """Fix the kind of the values, so that other kinds are not added. Leave out members of several kinds."""
        self._is_settled = bool(self._kinds)
        mixed = [name for name, member in self._members.items() if member.type is None]
        for name in mixed:
            del self._members[name]
            self._names.remove(name.lower())
        for value in [*self._members.values(), *([] if self._elements is None else [self._elements])]:
            value.settle()

    def _add_members(self, objects: Sequence[dict[str, Any]], limit: FieldLimit) -> None:
        by_name: dict[str, list[Any]] = {}
        for value in objects:
            for name, member in value.items():
                by_name.setdefault(name, []).append(member)
        for name, values in by_name.items():
            if name in self._members or self._begin_member(name, limit):
                self._members[name].add(values, limit)

    def _begin_member(self, name: str, limit: FieldLimit) -> bool:
        """Add an empty member; returns False if the schema has it with a plain type, or if it cannot be added."""
        path = f"{self._path}.{name}" if self._path else name
        own = self._own_fields.get(name)
        if own is not None:
            if not _has_members(own.type):
                return False
        elif name.lower() in self._names or not self._accepts(name):
            return False
        else:
            limit.count(path, len(self._names) if self._level else 0)
            self._names.add(name.lower())
        self._members[name] = self._inner(path, None if own is None else own.type)
        return True

    def _add_elements(self, values: Sequence[Any], limit: FieldLimit) -> None:
        if self._elements is None and values:
            own, path = self._own, f"{self._path}.element"
            kind = None
            if own is not None:
                kind = own.item_type if pa.types.is_map(own) else own.value_type
                if not _has_members(kind):
                    return
            self._elements = self._inner(path, kind)
        if self._elements is not None:
            self._elements.add(values, limit)

    def _inner(self, path: str, own: pa.DataType | None) -> InferredValue:
        # Time formats and the decimal sign are those of plain columns.
        inner = replace(self._format, time_formats={}, decimal=".") if self._level else self._format
        return InferredValue(path, inner, own, level=self._level + 1)

    def _element_type(self, default: pa.DataType) -> pa.DataType | None:
        return default if self._elements is None else self._elements.type

    def _struct(self) -> pa.DataType | None:
        own = [
            field.with_type(self._members[name].type) if name in self._members else field
            for name, field in self._own_fields.items()
        ]
        new = {name: member.type for name, member in self._members.items() if name not in self._own_fields}
        fields = [*own, *(pa.field(name, kind) for name, kind in new.items() if kind is not None)]
        return pa.struct(fields) if fields else None


def _kind(value: Any) -> type:
    """The kind of a value: ``dict`` of an object, ``list`` of an array, ``str`` of a plain value."""
    return type(value) if isinstance(value, (dict, list)) else str


def _has_members(kind: pa.DataType) -> bool:
    """Whether values of a type may get new members."""
    return bool(pa.types.is_nested(kind)) and kind != VARIANT


def _is_member_name(name: str) -> bool:
    return new_member(pa.field(name, pa.string()), ()) is not None
