"""All rows of each key after change events, each with its range of validity (slowly changing dimension, type 2)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.ingestion.change_events.events import ChangeEvents, group_starts
from lakehouse_lib.ingestion.change_events.latest import RowChanges, column_of, column_sequence, struct_of, values_at
from lakehouse_lib.ingestion.change_events.rules import ACTION, END, SEQUENCES, START, ChangeRules
from lakehouse_lib.ingestion.change_events.stored_rows import key_columns

_ROW, _DELETION, _EVENT = 0, 1, 2


def history_rows(events: ChangeEvents, current: pa.Table, deleted: pa.Table, rules: ChangeRules) -> RowChanges:
    """The changes after which the table has a row for each event except deletions, valid until the key's next event.

    The row of a late event is inserted between the existing rows, and the row before it ends where it starts.

    Args:
        current: all rows with keys of the events: keys, ``__start_at`` and ``__end_at``; with ``ignore_null_updates``
            also the other columns and ``__sequences``.
        deleted: the recorded deletions of these keys: keys and sequences.
    """
    keys, sequence = list(rules.keys), rules.sequence_by
    names = [name for name in events.rows.column_names if name not in (*keys, sequence)]
    points = _points(events, current, deleted, keys, sequence)
    kind, place = points["kind"].to_numpy(), points["place"].to_numpy()
    key_names = points.column_names[: len(keys)]
    starts = group_starts(points, key_names)
    is_delete = (kind == _DELETION) | (kind == _EVENT) & _at(events.is_delete, place, kind == _EVENT)

    following = np.arange(1, len(points) + 1)
    following = np.where(np.append(starts[1:], True), -1, following)
    sequences = points["sequence"]
    end = sequences.take(pa.array(following, mask=following < 0))
    is_row, is_event = kind == _ROW, kind == _EVENT
    stored_end = values_at(current[END], None, np.where(is_row, place, -1)).cast(end.type)
    changed = is_row & ~_same(end, stored_end)

    columns, chosen_sequences = {}, {}
    own_index = np.where(is_event, place, np.where(is_row, len(events.rows) + place, -1))
    for name in names:
        values = events.rows[name]
        stored = column_of(current, name, values.type)
        index = own_index
        if rules.ignore_null_updates:
            stored_sequence = column_sequence(current, name, current[START]).cast(sequences.type)
            is_own = pc.fill_null(pc.equal(stored_sequence, current[START]), False).to_numpy(zero_copy_only=False)
            is_set = ~is_delete & _at(pc.is_valid(values).to_numpy(zero_copy_only=False), place, is_event)
            is_set |= _at(is_own, place, is_row)
            point = _last_since(is_set, starts | is_delete)
            index = np.where(point >= 0, own_index[point], -1)
            chosen_sequences[name] = sequences.take(pa.array(point, mask=point < 0))
            changed |= is_row & ~_same(
                chosen_sequences[name], values_at(stored_sequence, None, np.where(is_row, place, -1))
            )
        columns[name] = values_at(values, stored, index)
    action = np.select([changed, is_event & ~is_delete], ["update", "insert"], "")
    rows = points.select(key_names).rename_columns(keys)
    for name, column in columns.items():
        rows = rows.append_column(events.rows.schema.field(name), column)
    rows = rows.append_column(START, sequences).append_column(END, end)
    if rules.ignore_null_updates:
        rows = rows.append_column(SEQUENCES, struct_of(chosen_sequences))
    rows = rows.append_column(ACTION, pa.array(action, pa.string())).filter(pa.array(action != ""))
    deletions = points.filter(pa.array(is_event & is_delete)).select([*key_names, "sequence"])
    return RowChanges(rows, deletions.rename_columns([*keys, sequence]))


def _points(events: ChangeEvents, current: pa.Table, deleted: pa.Table, keys: list[str], sequence: str) -> pa.Table:
    """The rows, deletions and events, sorted by key and sequence: the ``key_columns``, sequence, kind and place.

    If several have the same key and sequence, only one is left: the row, else the deletion, else the event.
    """
    parts = []
    for kind, table, name in ((_ROW, current, START), (_DELETION, deleted, sequence), (_EVENT, events.rows, sequence)):
        part = key_columns(table, keys).append_column("sequence", table[name].cast(events.sequence.type))
        part = part.append_column("kind", pa.array(np.full(len(table), kind, np.int8)))
        parts.append(part.append_column("place", pa.array(np.arange(len(table)))))
    schema = parts[-1].schema
    points = pa.concat_tables([part.cast(schema) for part in parts])
    by_sequence = [*schema.names[: len(keys)], "sequence"]
    order = [(name, "ascending") for name in (*by_sequence, "kind")]
    points = points.take(pc.sort_indices(points, order)).combine_chunks()
    return points.filter(pa.array(group_starts(points, by_sequence))).combine_chunks()


def _same(a: pa.ChunkedArray, b: pa.ChunkedArray) -> np.ndarray:
    """Whether two values are equal; NULL is equal to NULL."""
    equal = pc.or_(pc.fill_null(pc.equal(a, b), False), pc.and_(pc.is_null(a), pc.is_null(b)))
    mask: np.ndarray = equal.to_numpy()
    return mask


def _at(mask: np.ndarray, places: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The values of the mask at these places where ``where`` is true; False where it is false."""
    values: np.ndarray = where & np.append(mask, False)[np.where(where, places, -1)]
    return values


def _last_since(mask: np.ndarray, resets: np.ndarray) -> np.ndarray:
    """The position of the last true value of the mask since the last reset, which may be at the same row; else -1."""
    positions = np.arange(len(mask))
    last = np.maximum.accumulate(np.where(mask, positions, -1)) if len(mask) else positions
    reset = np.maximum.accumulate(np.where(resets, positions, -1)) if len(mask) else positions
    return np.where(last >= reset, last, -1)
