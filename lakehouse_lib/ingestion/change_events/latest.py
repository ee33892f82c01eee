"""The latest row of each key after change events (slowly changing dimension, type 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.ingestion.change_events.events import ChangeEvents, group_starts
from lakehouse_lib.ingestion.change_events.rules import ACTION, SEQUENCES, ChangeRules
from lakehouse_lib.ingestion.change_events.stored_rows import positions


@dataclass(frozen=True)
class RowChanges:
    """The changes of a table's rows after change events.

    Attributes:
        rows: the new rows, with ``ACTION``.
        deleted_keys: keys and sequences to record as deleted.
    """

    rows: pa.Table
    deleted_keys: pa.Table


def latest_rows(events: ChangeEvents, current: pa.Table, deleted: pa.Table, rules: ChangeRules) -> RowChanges:
    """The changes after which the table has the latest row of each key.

    The result does not depend on the order of batches: an event is compared with the sequence of the row, or of each
    of its columns, and with the recorded sequence of the key's deletion.

    Args:
        current: the table's rows with keys of the events, in the columns of the events; with ``ignore_null_updates``
            also ``__sequences``. Without ``ignore_null_updates``, only keys and the sequence are read.
        deleted: the recorded keys and sequences of deletions, at most one row for each key.
    """
    keys, sequence = list(rules.keys), rules.sequence_by
    names = [name for name in events.rows.column_names if name not in keys]
    own_sequences = {
        name: current[sequence] if name == sequence else column_sequence(current, name, current[sequence])
        for name in names
    }
    ranks = Ranks(events.sequence, deleted[sequence], current[sequence], *own_sequences.values())
    event, was_deleted, row, by_column = ranks.next(), ranks.next(), ranks.next(), [ranks.next() for _ in names]

    starts = np.flatnonzero(group_starts(events.rows, keys))
    groups = len(starts)
    ends = np.append(starts[1:], len(events.rows)) - 1
    group_keys = events.rows.select(keys).take(pa.array(starts))
    row_of, record_of = positions(group_keys, current, keys), positions(group_keys, deleted, keys)

    last_delete = last_true(events.is_delete, starts, ends)
    recorded = ranks_at(was_deleted, record_of)
    deletion = np.maximum(ranks_at(event, last_delete), recorded)
    upsert = ranks_at(event, last_true(~events.is_delete, starts, ends))
    stored = ranks_at(row, row_of)
    has_row = row_of >= 0
    lives = (np.maximum(upsert, stored) > deletion) | (has_row & (deletion < 0))

    columns, chosen_sequences, changed = {}, {}, np.zeros(groups, bool)
    for name, own in zip(names, by_column, strict=True):
        values = events.rows[name]
        is_set = ~events.is_delete
        if rules.ignore_null_updates:
            is_set = is_set & pc.is_valid(values).to_numpy(zero_copy_only=False)
        event_of = last_true(is_set, starts, ends)
        event_rank, own_rank = ranks_at(event, event_of), ranks_at(own, row_of)
        takes_event = (event_rank > own_rank) & (event_rank > deletion)
        keeps = ~takes_event & has_row & ((own_rank > deletion) | (deletion < 0))
        changed |= takes_event | (~keeps & (own_rank >= 0))
        index = np.where(takes_event, event_of, np.where(keeps, len(values) + row_of, -1))
        columns[name] = values_at(values, column_of(current, name, values.type), index)
        chosen_sequences[name] = values_at(events.sequence, own_sequences[name], index)
    action = np.select(
        [lives & has_row & changed, lives & ~has_row, ~lives & has_row], ["update", "insert", "delete"], ""
    )
    rows = group_keys
    for name, column in columns.items():
        rows = rows.append_column(events.rows.schema.field(name), column)
    if rules.ignore_null_updates:
        rows = rows.append_column(SEQUENCES, struct_of(chosen_sequences))
    rows = rows.append_column(ACTION, pa.array(action, pa.string())).filter(pa.array(action != ""))
    is_new = ranks_at(event, last_delete) > recorded
    new_records = group_keys.append_column(
        sequence, values_at(events.sequence, None, np.where(is_new, last_delete, -1))
    )
    return RowChanges(rows, new_records.filter(pa.array(is_new)))


def column_sequence(current: pa.Table, name: str, row_sequence: pa.ChunkedArray) -> pa.ChunkedArray:
    """For each row of the table, the sequence of the event that has set this column; NULL if no event has set it.

    A row without ``__sequences`` was written with the values of all its columns.
    """
    if SEQUENCES not in current.column_names:
        return row_sequence
    sequences, kind = current[SEQUENCES].combine_chunks(), row_sequence.type
    field = sequences.type.get_field_index(name)
    own = pa.nulls(len(current), kind) if field < 0 else pc.struct_field(sequences, name).cast(kind)
    return pc.if_else(pc.is_null(sequences), row_sequence, pa.chunked_array([own]))


def column_of(current: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    """A column of the table's rows; NULL if it was not read or is new."""
    if name in current.column_names:
        return current[name]
    return pa.chunked_array([pa.nulls(len(current), kind)])


class Ranks:
    """The order of the sequences of several columns, as integers; -1 for NULL."""

    def __init__(self, *columns: pa.ChunkedArray) -> None:
        kind = columns[0].type
        chunks = [chunk.cast(kind) for column in columns for chunk in column.chunks]
        sequences = pa.concat_arrays([*chunks, pa.nulls(0, kind)])
        values = pc.unique(sequences.drop_null())
        values = values.take(pc.sort_indices(values))
        ranks = pc.fill_null(pc.index_in(sequences, value_set=values), -1)
        self._ranks = ranks.to_numpy(zero_copy_only=False).astype(np.int64)
        self._sizes = [len(column) for column in columns]
        self._place = 0

    def next(self) -> np.ndarray:
        """The ranks of the next column, in the order of the constructor."""
        size = self._sizes.pop(0)
        self._place += size
        ranks: np.ndarray = self._ranks[self._place - size : self._place]
        return ranks


def last_true(mask: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """For each group of rows, the position of its last row where the mask is true; -1 if there is none."""
    last = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))[ends] if len(mask) else starts
    return np.where(last >= starts, last, -1)


def ranks_at(ranks: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The ranks at these positions; -1 at the position -1."""
    return np.where(places >= 0, np.append(ranks, -1)[places], -1)


def values_at(events: pa.ChunkedArray, current: pa.ChunkedArray | None, index: np.ndarray) -> pa.ChunkedArray:
    """The values at these positions in the events, followed by the table's rows; NULL at -1."""
    chunks = [*events.chunks, *([] if current is None else (chunk.cast(events.type) for chunk in current.chunks))]
    values = pa.chunked_array(chunks, events.type)
    return values.take(pa.array(index, mask=index < 0))


def struct_of(columns: dict[str, pa.ChunkedArray]) -> pa.Array:
    return pa.StructArray.from_arrays([column.combine_chunks() for column in columns.values()], list(columns))
