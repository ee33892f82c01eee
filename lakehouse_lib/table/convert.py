"""``convert_to_deltalake``: convert a folder of Parquet files to a table, in place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.operations.convert.convert import Conversion, convert
from lakehouse_lib.operations.convert.folder import PartitionStrategy
from lakehouse_lib.schema import Schema, StructType
from lakehouse_lib.store import open_store
from lakehouse_lib.transaction.commit_properties import CommitProperties, commit_properties_of
from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties


def convert_to_deltalake(
    uri: str | os.PathLike[str],
    mode: Literal["error", "ignore"] = "error",
    partition_by: Any = None,
    partition_strategy: PartitionStrategy | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    storage_options: dict[str, str] | None = None,
    *,
    collect_stats: bool = True,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Convert a folder of Parquet files to a table, in one commit. No file is moved or rewritten.

    Args:
        uri: the location of the folder.
        mode: if the location has a table, "error" (default) raises and "ignore" does nothing.
        partition_by: the partition columns with their types, as a Delta ``Schema`` or an Arrow schema. Required if the
            files are in partition folders.
        partition_strategy: "hive" for folders such as ``year=2026/month=1``; "directory" for ``2026/1``, in the order
            of ``partition_by``. Required with ``partition_by``.
        name, description, configuration: the values of the new table.
        storage_options: the options of the store.
        collect_stats: whether files get statistics from their footers. Without statistics, queries skip files only by
            partition values.
        commit_properties, post_commithook_properties: the properties of the commit, and the hooks after it.

    Raises:
        InvalidArgumentError: the location has a table or no Parquet file, or files or folders do not fit a table.
        SchemaMismatchError: a column has different types in two files; the message names a file.
        StoreError: a file is not readable as Parquet.
        DeltaError: as ``operations.convert.convert``.
    """
    store = open_store(uri, storage_options)
    properties = commit_properties_of(commit_properties, post_commithook_properties, table=store.root)
    if (partition_by is None) != (partition_strategy is None) or partition_strategy not in (None, "hive", "directory"):
        raise InvalidArgumentError(
            f"partition_by is {'given' if partition_by is not None else 'not given'} and partition_strategy is "
            f"{partition_strategy!r}; expected both or neither",
            table=store.root,
            hint='Give the partition columns and the strategy "hive" or "directory"',
        )
    if partition_by is None:
        partitions = Schema([])
    else:
        is_delta = isinstance(partition_by, StructType)
        partitions = Schema(partition_by.fields) if is_delta else Schema.from_arrow(partition_by)
    conversion = Conversion(
        partitions, partition_strategy or "hive", name, description, configuration, collect_stats=collect_stats
    )
    convert(store, conversion, mode=mode, commit_properties=properties)
