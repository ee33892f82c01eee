"""The largest partitions of a table, and the partitions with the most small files, as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse_airflow.commit_info import WITHHELD

if TYPE_CHECKING:
    from lakehouse_lib.fleet.health.partitions import HeavyPartitions, Partition

#: The largest number of characters of a partition value. Longer values are truncated.
_MOST_CHARACTERS = 80


@dataclass(frozen=True)
class PartitionRow:
    """A partition.

    Attributes:
        values: the values of the partition columns as texts.
        share: the share of the partition in the bytes of the table.
    """

    values: tuple[str, ...]
    files: int
    bytes: int
    small_files: int
    share: float


def partition_lists(
    heavy: HeavyPartitions | None, table_bytes: int, hidden: Collection[str]
) -> dict[str, list[PartitionRow]]:
    """The lists of partitions by title; empty if the table has no partitions.

    The second list, with the most small files, is left out if the first list has all partitions.

    Args:
        table_bytes: the size of the table.
        hidden: columns whose values identify a person, in lower case.
    """
    if heavy is None:
        return {}
    is_hidden = [column.lower() in hidden for column in heavy.columns]

    def rows(partitions: Iterable[Partition]) -> list[PartitionRow]:
        return [
            PartitionRow(
                tuple(map(_text, each.values, is_hidden)),
                each.files,
                each.bytes,
                each.small_files,
                each.bytes / max(table_bytes, 1),
            )
            for each in partitions
        ]

    lists = {"The largest partitions": rows(heavy.largest)}
    if heavy.fragmented and heavy.partitions > len(heavy.largest):
        lists["Partitions with the most small files"] = rows(heavy.fragmented)
    return lists


def _text(value: str | None, is_hidden: bool) -> str:
    if is_hidden:
        return WITHHELD
    text = "NULL" if value is None else value
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
