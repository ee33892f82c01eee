"""A user's module, which `make lint` checks with mypy --strict: the public names have types."""

from collections.abc import Mapping

from lakehouse_lib import (
    AddAction,
    CommitProperties,
    DeltaTable,
    Field,
    Metadata,
    PostCommitHookProperties,
    Schema,
    TableNotFoundError,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from lakehouse_lib.exceptions import DeltaError
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.table import TableMerger
from lakehouse_lib.transaction import create_table_with_add_actions


def upsert(table: DeltaTable, rows: object) -> Mapping[str, object]:
    merger: TableMerger = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    return merger.when_matched_update_all().when_not_matched_insert_all().execute()


def create(location: str, actions: list[AddAction]) -> Metadata:
    schema = Schema([Field("id", PrimitiveType("long"))])
    try:
        return DeltaTable(location).metadata()
    except TableNotFoundError:
        create_table_with_add_actions(location, schema, actions, mode="append", partition_by=[])
    except DeltaError as error:
        raise SystemExit(error.code) from None
    properties = CommitProperties(app_transactions=[Transaction("load", 1)])
    hooks = PostCommitHookProperties(create_checkpoint=False)
    write_deltalake(
        location,
        [],
        mode="append",
        writer_properties=WriterProperties(compression="ZSTD"),
        commit_properties=properties,
        post_commithook_properties=hooks,
    )
    return DeltaTable(location).metadata()
