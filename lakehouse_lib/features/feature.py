"""A table feature: its name, the metadata that enables it, the protocol that it requires, and what is supported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import TableProperty
from lakehouse_lib.schema import Field, PrimitiveType, RowRule, Schema, StructType, TableLayout, all_types

#: A test of a table's metadata: its properties and its schema.
MetadataTest = Callable[[Mapping[str, str], Schema], bool]
#: Returns the rules of a feature for the rows of a table. The arguments are the table's properties, its layout, and its
#: location for errors.
RulesOf = Callable[[Mapping[str, str], TableLayout, str | None], Sequence[RowRule]]
#: The origin of a feature's name. Released features are in PROTOCOL.md. Some engines also add previews and proposals to
#: tables.
Status = Literal["released", "preview", "proposal"]

_NO_VERSION = 99


def always(_configuration: Mapping[str, str], _schema: Schema) -> bool:
    """True for every table."""
    return True


def no_rules(_configuration: Mapping[str, str], _layout: TableLayout, _table: str | None) -> Sequence[RowRule]:
    """No rules, for a feature that does not restrict rows."""
    return ()


def is_never_enabled(_configuration: Mapping[str, str], _schema: Schema) -> bool:
    """False for every table."""
    return False


@dataclass(frozen=True)
class HasProperty:
    """A test that is true if a property has a value, and false if its text is not valid for the property.

    Attributes:
        table_property: the property.
        value: the value that the property must have.
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
    """A test for a property whose name begins with ``prefix``, regardless of case, as in delta-spark."""
    return lambda configuration, _: any(key.lower().startswith(prefix.lower()) for key in configuration)


def field_metadata(prefix: str) -> MetadataTest:
    """A test for a column or a member of a struct, at any depth, with a metadata key that begins with ``prefix``."""
    return lambda _, schema: any(key.startswith(prefix) for field in _fields(schema) for key in (field.metadata or {}))


def primitive_type(*prefixes: str) -> MetadataTest:
    """A test for a primitive type, at any depth, whose name begins with one of ``prefixes``."""
    return lambda _, schema: any(
        kind.type.startswith(prefixes) for kind in all_types(schema) if isinstance(kind, PrimitiveType)
    )


@dataclass(frozen=True)
class Feature:
    """A table feature.

    Attributes:
        name: its name in the lists of a protocol.
        reader: True: listed in readerFeatures and writerFeatures; False: in writerFeatures only.
        reads, writes: whether this library can read and write tables that use it.
        is_required_by: whether metadata requires the feature (delta-spark's metadataRequiresFeatureToBeEnabled).
        support_note: the supported part of the feature, or the reason why it is not supported; for errors and the docs.
        status: the origin of the name.
        in_use: whether a table that lists the feature uses it; None: the same test as ``is_required_by``.
        requires: other features that the protocol must have.
        legacy_versions: the reader and writer version that imply it in a protocol without lists; None: no version does.
        needs_backfill: whether the existing files of a table need a backfill before the protocol may get the feature.
            If True, metadata alone adds it to the protocol only in a table without files.
        rules: its rules for rows that are written.
    """

    name: str
    reader: bool
    reads: bool
    writes: bool
    is_required_by: MetadataTest
    support_note: str
    status: Status = "released"
    in_use: MetadataTest | None = None
    requires: tuple[str, ...] = ()
    legacy_versions: tuple[int, int] | None = None
    needs_backfill: bool = False
    rules: RulesOf = no_rules

    def is_supported(self, protocol: Protocol) -> bool:
        """Whether a protocol lists the feature, or implies it by its versions.

        A reader feature must be supported for both readers and writers, as in delta-spark.
        """
        reader, writer = self.legacy_versions or (_NO_VERSION, _NO_VERSION)
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
        return (self.in_use or self.is_required_by)(metadata.configuration, schema)


def _fields(schema: Schema) -> Iterator[Field]:
    for kind in all_types(schema):
        if isinstance(kind, StructType):
            yield from kind.fields
