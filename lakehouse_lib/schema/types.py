"""The types of a table's columns, and its schema.

The names and signatures are those of the ``deltalake`` package. All types are immutable values that can be compared,
pickled and shared: as in that package, a change of the ``fields`` or ``metadata`` that a type gives changes a copy.
Column names are matched regardless of case, because the protocol forbids names that differ only in case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import pyarrow as pa

from lakehouse_lib.errors import DuplicateColumnError, InvalidSchemaError, WrongKindOfTypeError

_NUMBERS = ("byte", "short", "integer", "long", "float", "double")
#: The names of the supported primitive types, without decimals, which are named ``decimal(precision,scale)``.
PRIMITIVES = frozenset((*_NUMBERS, "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz", "void"))

_T = TypeVar("_T")
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)\Z")


class _Exported:
    """The conversions to JSON and Arrow, which types, fields and schemas have in common."""

    def to_json(self) -> str:
        text: str = _json_form().dump(self)
        return text

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().__arrow_c_schema__()

    def to_arrow(self) -> Any:
        return _arrow().type_to_arrow(self)


@dataclass(frozen=True, init=False)
class PrimitiveType(_Exported):
    """A type without parts, such as ``PrimitiveType("long")`` or ``PrimitiveType("decimal(10,2)")``.

    Raises:
        InvalidSchemaError: the name is not one of ``PRIMITIVES``, or the precision or scale of a decimal is not valid.
        WrongKindOfTypeError: the name is not a str.
    """

    type: str

    def __init__(self, type: str) -> None:
        object.__setattr__(self, "type", _canonical_primitive(type))

    @staticmethod
    def of_name(type: str) -> PrimitiveType:
        """The type that a log names; an unknown name is accepted."""
        if type == "variant":
            return VariantType()
        # A log may name a type that this library does not know (an interval, a geometry). The table's other columns
        # can still be read, so the name is refused only where values of the type are needed.
        self = object.__new__(PrimitiveType)
        try:
            object.__setattr__(self, "type", _canonical_primitive("decimal(10,0)" if type == "decimal" else type))
        except InvalidSchemaError:
            object.__setattr__(self, "type", type)
        return self

    @property
    def is_known(self) -> bool:
        """Whether the type is one of ``PRIMITIVES`` or a valid decimal; not a variant or an unknown type of a log."""
        return self.type in PRIMITIVES or self.decimal is not None

    @property
    def decimal(self) -> tuple[int, int] | None:
        """(precision, scale) of a valid decimal, else None."""
        match = _DECIMAL.match(self.type)
        return _precision_and_scale(match) if match else None

    @staticmethod
    def from_json(text: str) -> PrimitiveType:
        return _expect(PrimitiveType, _json_form().load(text))

    @staticmethod
    def from_arrow(type: Any) -> PrimitiveType:
        return _expect(PrimitiveType, _arrow().type_from_arrow(_arrow_type(type)))

    def __str__(self) -> str:
        return self.type

    def __repr__(self) -> str:
        return f'PrimitiveType("{self.type}")'


@dataclass(frozen=True, init=False, repr=False)
class VariantType(PrimitiveType):
    """A value of any type, in the encoding of the Parquet variant."""

    def __init__(self) -> None:
        object.__setattr__(self, "type", "variant")

    def __repr__(self) -> str:
        return "VariantType()"


@dataclass(frozen=True, init=False)
class ArrayType(_Exported):
    """A list of ``element_type``."""

    element_type: DataType
    contains_null: bool

    def __init__(self, element_type: DataType | str, contains_null: bool = True) -> None:
        object.__setattr__(self, "element_type", _as_type(element_type))
        object.__setattr__(self, "contains_null", contains_null)

    @property
    def type(self) -> str:
        return "array"

    @staticmethod
    def from_json(text: str) -> ArrayType:
        return _expect(ArrayType, _json_form().load(text))

    @staticmethod
    def from_arrow(type: Any) -> ArrayType:
        return _expect(ArrayType, _arrow().type_from_arrow(_arrow_type(type)))

    def __str__(self) -> str:
        return f"array<{self.element_type}>"

    def __repr__(self) -> str:
        return f"ArrayType({self.element_type!r}, contains_null={self.contains_null})"


@dataclass(frozen=True, init=False)
class MapType(_Exported):
    """A map from ``key_type`` (never null) to ``value_type``."""

    key_type: DataType
    value_type: DataType
    value_contains_null: bool

    def __init__(self, key_type: DataType | str, value_type: DataType | str, value_contains_null: bool = True) -> None:
        object.__setattr__(self, "key_type", _as_type(key_type))
        object.__setattr__(self, "value_type", _as_type(value_type))
        object.__setattr__(self, "value_contains_null", value_contains_null)

    @property
    def type(self) -> str:
        return "map"

    @staticmethod
    def from_json(text: str) -> MapType:
        return _expect(MapType, _json_form().load(text))

    @staticmethod
    def from_arrow(type: Any) -> MapType:
        return _expect(MapType, _arrow().type_from_arrow(_arrow_type(type)))

    def __str__(self) -> str:
        return f"map<{self.key_type},{self.value_type}>"

    def __repr__(self) -> str:
        return f"MapType({self.key_type!r}, {self.value_type!r}, value_contains_null={self.value_contains_null})"


@dataclass(frozen=True, init=False)
class Field(_Exported):
    """A column, or a member of a struct. The values of ``metadata`` are any JSON values."""

    name: str
    type: DataType
    nullable: bool
    _metadata: dict[str, Any] = field(hash=False)

    def __init__(
        self,
        name: str,
        type: DataType | str,
        nullable: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise WrongKindOfTypeError(f"the name of a column is {name!r}; expected text")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "type", _as_type(type))
        object.__setattr__(self, "nullable", nullable)
        object.__setattr__(self, "_metadata", _copy_of(metadata or {}))

    @property
    def metadata(self) -> dict[str, Any]:
        """A copy, because fields are shared."""
        return _copy_of(self._metadata) if self._metadata else {}

    @staticmethod
    def from_json(text: str) -> Field:
        return _expect(Field, _json_form().load_field(text))

    def to_arrow(self) -> pa.Field:
        return _arrow().field_to_arrow(self)

    @staticmethod
    def from_arrow(field: Any) -> Field:
        return _expect(Field, _arrow().field_from_arrow(field if isinstance(field, pa.Field) else pa.field(field)))

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'' if self.nullable else ' not null'}"

    def __repr__(self) -> str:
        extra = f", metadata={self._metadata}" if self._metadata else ""
        return f"Field({self.name}, {self.type!r}, nullable={self.nullable}{extra})"


@dataclass(frozen=True, init=False)
class StructType(_Exported):
    """Named fields in order.

    Raises:
        DuplicateColumnError: two names are the same, regardless of case.
        WrongKindOfTypeError: a field is not a ``Field``.
    """

    _fields: tuple[Field, ...]
    _by_name: dict[str, Field]

    def __init__(self, fields: Iterable[Field]) -> None:
        object.__setattr__(self, "_fields", tuple(fields))
        by_name: dict[str, Field] = {}
        for member in self._fields:
            _expect(Field, member)
            other = by_name.setdefault(member.name.lower(), member)
            if other is not member:
                raise DuplicateColumnError(
                    f"two columns are named {other.name!r} and {member.name!r}",
                    hint="Rename one of them: column names must differ in more than case",
                )
        object.__setattr__(self, "_by_name", by_name)

    @property
    def type(self) -> str:
        return "struct"

    @property
    def fields(self) -> list[Field]:
        """A new list, because types are shared."""
        return list(self._fields)

    @property
    def names(self) -> list[str]:
        return [member.name for member in self._fields]

    def field(self, name: str) -> Field:
        """The field of that name, regardless of case; raises KeyError if there is none."""
        return self._by_name[name.lower()]

    def get(self, name: str) -> Field | None:
        """The field of that name, regardless of case, or None."""
        return self._by_name.get(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name

    def __iter__(self) -> Iterator[Field]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StructType) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The schema of a JSON text; raises InvalidSchemaError if the text is not JSON or not a struct."""
        return cls(_expect(StructType, _json_form().load(text)))

    @classmethod
    def from_arrow(cls, type: Any) -> Self:
        return cls(_expect(StructType, _arrow().type_from_arrow(_arrow_type(type))))

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self._fields))}>"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fields!r})"


class Schema(StructType):
    """The columns of a table."""

    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.to_json())
        return value

    def to_arrow(self, as_large_types: bool = False) -> pa.Schema:
        """The Arrow schema of the table's data in memory; ``schema.arrow`` lists the types.

        Args:
            as_large_types: whether strings, binaries and lists have 64-bit offsets.
        """
        arrow = pa.schema([column.to_arrow() for column in self.fields])
        if not as_large_types:
            return arrow
        return pa.schema([column.with_type(_arrow().with_large_offsets(column.type)) for column in arrow])

    @classmethod
    def from_arrow(cls, schema: Any) -> Self:
        """The schema that can hold data of the Arrow ``schema`` (any object with ``__arrow_c_schema__``).

        Raises:
            InvalidSchemaError: the object is not a schema, or a column has a type that Delta tables do not have.
        """
        try:
            arrow = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
        except (TypeError, ValueError) as error:
            raise InvalidSchemaError(
                f"a value of type {type(schema).__qualname__} is not a schema: {error}",
                hint='Give Schema([Field("id", "long")]), or a pyarrow schema',
            ) from error
        return cls([_arrow().field_from_arrow(column) for column in arrow])


DataType = PrimitiveType | ArrayType | MapType | StructType


def _canonical_primitive(name: str) -> str:
    if not isinstance(name, str):
        raise WrongKindOfTypeError(f"the type is {name!r}; expected the name of a type, such as 'long'")
    if name in PRIMITIVES:
        return name
    match = _DECIMAL.match(name)
    if match is None:
        raise InvalidSchemaError(
            f"{name!r} is not a type of a Delta table",
            hint=f"Use one of {', '.join(sorted(PRIMITIVES))} or decimal(precision,scale)",
            code="DELTA_UNSUPPORTED_TYPE",
        )
    decimal = _precision_and_scale(match)
    if decimal is None:
        raise InvalidSchemaError(
            f"{name!r} is not a valid decimal",
            hint="Choose a precision from 1 to 38, and a scale from 0 to the precision",
            code="DELTA_UNSUPPORTED_TYPE",
        )
    return f"decimal({decimal[0]},{decimal[1]})"


def _precision_and_scale(match: re.Match[str]) -> tuple[int, int] | None:
    # Valid numbers are shorter, and Python refuses to convert numbers of thousands of digits.
    if max(len(match[1]), len(match[2])) > 9:
        return None
    precision, scale = int(match[1]), int(match[2])
    return (precision, scale) if 1 <= precision <= 38 and 0 <= scale <= precision else None


def _as_type(kind: DataType | str) -> DataType:
    if isinstance(kind, str):
        return PrimitiveType(kind)
    if not isinstance(kind, DataType):
        raise WrongKindOfTypeError(f"the type is {kind!r}; expected a type of this library, or the name of a type")
    return kind


def _expect(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise WrongKindOfTypeError(f"the type is {value}; expected a {kind.__name__}")
    return value


def _copy_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: deepcopy(value) if isinstance(value, (dict, list)) else value for key, value in metadata.items()}


def _arrow_type(value: Any) -> pa.DataType:
    if isinstance(value, pa.DataType):
        return value
    if not hasattr(value, "__arrow_c_schema__"):
        raise WrongKindOfTypeError(f"the type is {value!r}; expected an Arrow type")
    return pa.field(value).type


# The modules of the conversions import this module, so the methods of the types import them when they are called.


def _arrow() -> Any:
    from lakehouse_lib.schema import arrow

    return arrow


def _json_form() -> Any:
    from lakehouse_lib.schema import json_form

    return json_form
