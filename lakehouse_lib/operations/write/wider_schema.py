"""The metadata of a table that gets more columns."""

from __future__ import annotations

import pyarrow as pa

from lakehouse_lib.features import has_change_data_feed, with_physical_names
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.schema import Schema, check_feed_names, check_names, merge
from lakehouse_lib.snapshot import Snapshot


def with_new_columns(snapshot: Snapshot, incoming: pa.Schema) -> Metadata:
    """The table's metadata with the new columns and nested fields of ``incoming``.

    Raises:
        SchemaMismatchError: the types of columns do not fit; the message lists all of them.
        InvalidSchemaError: the name of a new column or field is not valid.
    """
    return with_wider_schema(snapshot, merge(snapshot.schema, incoming, table=snapshot.store.root))


def with_wider_schema(snapshot: Snapshot, schema: Schema) -> Metadata:
    """The table's metadata with a schema that has more columns and nested fields.

    Raises:
        InvalidSchemaError: the name of a new column or field is not valid.
    """
    table, before = snapshot.store.root, snapshot.metadata
    if schema == snapshot.schema:
        return before
    if snapshot.layout.mapping == "none":
        check_names(schema, snapshot.schema, table=table)
    if has_change_data_feed(before):
        check_feed_names(Schema([field for field in schema.fields if field.name not in snapshot.schema]), table=table)
    after = before.with_schema(schema.to_json())
    return after if snapshot.layout.mapping == "none" else with_physical_names(after, before, table=table)
