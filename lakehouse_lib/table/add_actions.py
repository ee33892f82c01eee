"""``create_table_with_add_actions``: create a table whose files another program has written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse_lib.operations.write.add_actions import AddAction
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.operations.write.planned_write import Mode
from lakehouse_lib.schema import Schema, StructType
from lakehouse_lib.store import open_store
from lakehouse_lib.transaction.commit_properties import CommitProperties, commit_properties_of
from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties

__all__ = ["AddAction", "create_table_with_add_actions"]


def create_table_with_add_actions(
    table_uri: str | os.PathLike[str],
    schema: Any,
    add_actions: Sequence[AddAction],
    mode: Mode = "error",
    partition_by: list[str] | str | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    storage_options: dict[str, str] | None = None,
    *,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Create a table with data files that exist already, in one commit. No data file is read.

    Args:
        schema: a Delta ``Schema`` or ``StructType``, or an Arrow schema. The files are not compared with it.
        add_actions: the data files.
        mode: if the table exists, "error" and "append" raise, "ignore" does nothing, and "overwrite" replaces all rows
            by the rows of these files, and the schema, the partitioning and the properties.
        partition_by, name, description, configuration, storage_options: as in ``write_deltalake``.

    Raises:
        InvalidArgumentError: the table exists; or an action is not valid, or its file does not exist.
        DeltaError: as ``operations.write.create.create_table``.
    """
    store = open_store(table_uri, storage_options)
    properties = commit_properties_of(commit_properties, post_commithook_properties, table=store.root)
    create_table(
        store,
        Schema(schema.fields) if isinstance(schema, StructType) else Schema.from_arrow(schema),
        add_actions,
        mode=mode,
        partition_by=[partition_by] if isinstance(partition_by, str) else partition_by,
        name=name,
        description=description,
        configuration=configuration,
        commit_properties=properties,
    )
