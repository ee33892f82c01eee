"""What a table feature is: its name, what metadata enables it, what it requires of the protocol, what is supported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import TableProperty
from lakehouse_lib.schema import Field, PrimitiveType, RowRule, Schema, StructType, all_types

#: A question about a table's metadata: its properties and its schema.
MetadataTest = Callable[[Mapping[str, str], Schema], bool]
#: The rules that a feature has for the rows of a table, by its properties and its schema.
RulesOf = Callable[[Mapping[str, str], Schema], Sequence[RowRule]]
#: Where a name comes from: released features are those of PROTOCOL.md; the others turn up in tables all the same.
Status = Literal["released", "preview", "proposal"]

_NO_VERSION = 99


def always(_configuration: Mapping[str, str], _schema: Schema) -> bool:
    """True for every table."""
    return True


def no_rules(_configuration: Mapping[str, str], _schema: Schema) -> Sequence[RowRule]:
    """The rules of a feature that has none."""
    return ()


def never(_configuration: Mapping[str, str], _schema: Schema) -> bool:
    """False for every table."""
    return False


@dataclass(frozen=True)
class PropertySet:
    """Tests whether a property has a value; a text that is not valid counts as another value.

    Attributes:
        table_property: the property.
        value: the value.
    """

    table_property: TableProperty[Any]
    value: Any = True

    def __call__(self, configuration: Mapping[str, str], _schema: Schema) -> bool:
        text = configuration.get(self.table_property.key)
        try:
            return text is not None and bool(self.table_property.parse(text.strip()) == self.value)
        except ValueError:
            return False


def property_prefix(prefix: str) -> MetadataTest:
    """Tests for a property whose name begins so, regardless of case, as delta-spark looks for constraints."""
    return lambda configuration, _: any(key.lower().startswith(prefix.lower()) for key in configuration)


def field_metadata(prefix: str) -> MetadataTest:
    """Tests for a column or member, at any depth, with a metadata key that begins so."""
    return lambda _, schema: any(key.startswith(prefix) for field in _fields(schema) for key in (field.metadata or {}))


def primitive_type(*prefixes: str) -> MetadataTest:
    """Tests for a primitive type, at any depth, whose name begins so."""
    return lambda _, schema: any(
        kind.type.startswith(prefixes) for kind in all_types(schema) if isinstance(kind, PrimitiveType)
    )


@dataclass(frozen=True)
class Feature:
    """A table feature.

    Attributes:
        name: as protocols list it.
        reader: listed in readerFeatures and writerFeatures; the others in writerFeatures alone.
        reads, writes: supported here, also of tables that use it.
        enabled: whether metadata needs the feature in the protocol (delta-spark's metadataRequiresFeatureToBeEnabled).
        why: what is supported, or why it is not.
        status: where the name comes from.
        used: whether a table that lists the feature uses it; None: when its metadata enables it.
        requires: features that the protocol must have with it.
        legacy: the reader and writer version that imply it in a protocol without lists; None: none does.
        needs_backfill: the metadata alone does not enable it for a table with files, whose rows lack what it promises.
        rules: what it requires of rows that are written.
    """

    name: str
    reader: bool
    reads: bool
    writes: bool
    enabled: MetadataTest
    why: str
    status: Status = "released"
    used: MetadataTest | None = None
    requires: tuple[str, ...] = ()
    legacy: tuple[int, int] | None = None
    needs_backfill: bool = False
    rules: RulesOf = no_rules

    def is_supported(self, protocol: Protocol) -> bool:
        """Whether a protocol lists the feature, or implies it by its versions.

        A feature of readers and writers is supported only where both sides have it, as in delta-spark.
        """
        reader, writer = self.legacy or (_NO_VERSION, _NO_VERSION)
        if protocol.min_writer_version >= 7:
            for_writers = self.name in (protocol.writer_features or ())
        else:
            for_writers = protocol.min_writer_version >= writer
        if not for_writers or not self.reader:
            return for_writers
        if protocol.min_reader_version >= 3:
            return self.name in (protocol.reader_features or ())
        return protocol.min_reader_version >= reader

    def is_used(self, metadata: Metadata, schema: Schema) -> bool:
        """Whether a table that lists the feature uses it."""
        return (self.used or self.enabled)(metadata.configuration, schema)


def _fields(schema: Schema) -> Iterator[Field]:
    for kind in all_types(schema):
        if isinstance(kind, StructType):
            yield from kind.fields
