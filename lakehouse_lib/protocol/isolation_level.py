"""Isolation levels of commits, by delta-spark's names (PROTOCOL.md does not have them)."""

from __future__ import annotations

from enum import StrEnum


class IsolationLevel(StrEnum):
    """Isolation levels of transactions, from the strictest to the weakest (delta-spark's).

    SERIALIZABLE: reads and writes have the serial order of the log.
    WRITE_SERIALIZABLE: writes have some serial order. A blind append may be in the log before a commit that should have
        read its rows in the log's order.
    SNAPSHOT_ISOLATION: rows that other writers add do not conflict. Only for commits that change no row, never a level
        of a table.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT_ISOLATION = "SnapshotIsolation"
