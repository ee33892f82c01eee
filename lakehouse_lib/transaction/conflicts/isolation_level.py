"""The isolation level of a commit, and the concurrent appends that conflict with it. The levels are delta-spark's;
PROTOCOL.md has none."""

from __future__ import annotations

from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import ISOLATION_LEVEL, IsolationLevel


def level_of(
    before: Metadata | None, after: Metadata | None, *, changes_only_files: bool, table: str
) -> IsolationLevel:
    """The isolation level of a commit: snapshot isolation if it writes only files and changes no row, else the table's.

    Args:
        before: the metadata of the read version; None for a new table.
        after: the metadata that the commit writes; None: it writes none. ``before`` or ``after`` must not be None.
        changes_only_files: whether the commit writes only files and changes no row.

    Raises:
        InvalidArgumentError: the level of the table is not valid.
    """
    if changes_only_files:
        return IsolationLevel.SNAPSHOT_ISOLATION
    metadata = after or before  # ``after`` first, so that a commit can replace a level that is not valid
    assert metadata is not None
    return ISOLATION_LEVEL.of(metadata.configuration, table)


def allows_append(level: IsolationLevel, *, is_blind_append: bool, writes_metadata: bool) -> bool:
    """Whether rows that a winning commit added do not conflict, even if the transaction's predicates match them.

    Args:
        level: the isolation level of the transaction.
        is_blind_append: whether the winning commit read nothing, and only added rows. Under WriteSerializable it may be
            ordered after the transaction.
        writes_metadata: whether the transaction changes the metadata.
    """
    if level is IsolationLevel.SNAPSHOT_ISOLATION:
        return True
    return level is IsolationLevel.WRITE_SERIALIZABLE and is_blind_append and not writes_metadata
