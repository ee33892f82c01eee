"""Blocks of a checkpoint. A block has the actions of one kind in one row group of a part, and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.log.checkpoint.part import FieldPath, Part
from lakehouse_lib.schema import DataType
from lakehouse_lib.statistics import Bounds, ColumnPath, WrittenStatistics, bounds_of, struct_bounds

#: The field of an action with its statistics as a struct.
STATS_STRUCT = "stats_parsed"


@dataclass(frozen=True)
class Block:
    """The actions of one kind in one row group of a part.

    Attributes:
        action: "add" or "remove".
        number: the number of the row group, from 0.
        rows: the number of these actions.
    """

    part: Part
    action: str
    number: int
    rows: int

    def has(self, *field: str) -> bool:
        """Whether the part has this field of the action, or a field below it."""
        return self.part.has(self.action, *field)

    def is_empty(self, field: str) -> bool:
        """Whether the field is known to be null in the whole block, without reading it."""
        return self.part.is_empty(self.action, self.number, field)

    def read(self, fields: Sequence[FieldPath]) -> dict[str, pa.ChunkedArray]:
        """Read fields of the block's actions, as ``Part.read`` does."""
        return self.part.read(self.action, self.number, fields)


def bounds_of_block(
    block: Block, columns: Mapping[ColumnPath, DataType], read_stats: Callable[[], pa.Table]
) -> dict[ColumnPath, Bounds]:
    """The bounds of columns: from struct statistics if the checkpoint has them, otherwise from the JSON.

    Only the statistics of these columns are read.

    Args:
        read_stats: reads the JSON statistics of the block, as a table with the column ``stats``.
    """
    struct_columns = {
        path: kind
        for path, kind in columns.items()
        if any(block.has(STATS_STRUCT, statistic, *path) for statistic in ("nullCount", "minValues"))
    }
    if not block.has(STATS_STRUCT, "numRecords"):
        struct_columns = {}
    bounds = _struct_bounds(block, struct_columns, read_stats) if struct_columns else {}
    json_columns = {path: kind for path, kind in columns.items() if path not in struct_columns}
    return bounds | (bounds_of(read_stats(), json_columns) if json_columns else {})


def _struct_bounds(
    block: Block, columns: Mapping[ColumnPath, DataType], read_stats: Callable[[], pa.Table]
) -> dict[ColumnPath, Bounds]:
    leaves: list[tuple[str, ...]] = [(STATS_STRUCT, "numRecords"), (STATS_STRUCT, "tightBounds")]
    leaves += [
        (STATS_STRUCT, statistic, *path) for path in columns for statistic in ("minValues", "maxValues", "nullCount")
    ]
    structs = block.read(leaves)[STATS_STRUCT].combine_chunks()
    bounds = struct_bounds(structs, columns)
    if structs.null_count and block.has("stats"):
        by_json = bounds_of(read_stats(), columns)
        bounds = {path: by_json[path].where(structs.is_null(), column_bounds) for path, column_bounds in bounds.items()}
    return bounds


def statistics_of_block(
    block: Block, selection: WrittenStatistics, read_stats: Callable[[], pa.ChunkedArray]
) -> pa.Table:
    """The statistics of the block's files: from the structs, or from the JSON if it may have more statistics.

    Args:
        read_stats: reads the JSON statistics of the block.
    """
    structs = _written_structs(block, selection, read_stats)
    return selection.from_json(read_stats()) if structs is None else structs


def _written_structs(
    block: Block, selection: WrittenStatistics, read_stats: Callable[[], pa.ChunkedArray]
) -> pa.Table | None:
    """The statistics from the structs; None if the JSON may have more statistics."""
    leaves = [(STATS_STRUCT, *path) for path in selection.leaves]
    if not all(block.has(*leaf) for leaf in leaves):
        return None
    structs = block.read(leaves)[STATS_STRUCT]
    if structs.null_count and block.has("stats"):
        stats = read_stats()
        if stats.filter(structs.is_null()).null_count < structs.null_count:
            return None
    return selection.from_structs(structs)
