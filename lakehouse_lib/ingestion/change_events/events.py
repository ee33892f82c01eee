"""Change events in the order in which they are applied: by key, then by sequence, each once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.ingestion.change_events.rules import ChangeRules, check_key_types, invalid_rules

#: The most events that an error names.
_MOST_EXAMPLES = 10


@dataclass(frozen=True)
class ChangeEvents:
    """Change events, sorted by key and sequence, each once.

    Attributes:
        rows: the keys, the sequence and the other columns of the table.
        sequence: the sequence of each event.
        is_delete: whether an event deletes its row.
        duplicate_count: the number of events that were left out because they repeat another event.
    """

    rows: pa.Table
    sequence: pa.ChunkedArray
    is_delete: np.ndarray
    duplicate_count: int


def change_events(rows: pa.Table, is_delete: pa.Array | pa.ChunkedArray, rules: ChangeRules) -> ChangeEvents:
    """Sort events, and leave out those that repeat another event.

    Args:
        rows: the keys, the sequence and the other columns of the table, in the table's types.
        is_delete: whether an event deletes its row; NULL counts as false.

    Raises:
        InvalidArgumentError: a key or a sequence is NULL, or two different events of a key have the same sequence.
        NotSupportedError: a key or the sequence has a type without an exact order.
    """
    needed = [*rules.keys, rules.sequence_by]
    check_key_types(rows.schema, needed)
    for name in needed:
        if rows[name].null_count:
            raise invalid_rules(
                f"{name!r} is NULL in {rows[name].null_count} events; expected a value in each event",
                "Filter these events out, or give them a value",
            )
    order = pc.sort_indices(rows, [(name, "ascending") for name in needed])
    rows = rows.take(order).combine_chunks()
    is_deletion = pc.fill_null(is_delete, False).take(order).to_numpy(zero_copy_only=False)
    repeats = np.flatnonzero(~group_starts(rows, needed))
    if len(repeats):
        _check_repeats(rows, is_deletion, repeats, rules)
        distinct_rows = np.setdiff1d(np.arange(len(rows)), repeats, assume_unique=True)
        rows, is_deletion = rows.take(pa.array(distinct_rows)), is_deletion[distinct_rows]
    return ChangeEvents(rows, rows[rules.sequence_by], is_deletion, len(repeats))


def group_starts(rows: pa.Table, names: list[str]) -> np.ndarray:
    """A mask of the first row of each group: adjacent rows with equal values in the columns ``names``.

    NULL is equal to NULL.
    """
    starts = np.zeros(len(rows), bool)
    starts[:1] = True
    for name in names:
        values = rows[name].combine_chunks()
        equal = pc.fill_null(pc.equal(values[1:], values[:-1]), False)
        both_null = pc.and_(pc.is_null(values[1:]), pc.is_null(values[:-1]))
        starts[1:] |= ~pc.or_(equal, both_null).to_numpy(zero_copy_only=False)
    return starts


def _check_repeats(rows: pa.Table, is_deletion: np.ndarray, repeats: np.ndarray, rules: ChangeRules) -> None:
    """Check that each event at a position of ``repeats`` is equal to the event before it.

    Raises:
        InvalidArgumentError: two events with the same key and sequence differ.
    """
    later, earlier = rows.take(pa.array(repeats)), rows.take(pa.array(repeats - 1))
    is_different = is_deletion[repeats] != is_deletion[repeats - 1]
    for name in rows.column_names:
        if not later[name].equals(earlier[name]):
            pairs = zip(later[name].to_pylist(), earlier[name].to_pylist(), strict=True)
            is_different |= np.array([_text(value) != _text(earlier_value) for value, earlier_value in pairs])
    if not is_different.any():
        return
    columns = [*rules.keys, rules.sequence_by]
    examples = later.select(columns).filter(pa.array(is_different)).slice(0, _MOST_EXAMPLES).to_pylist()
    example_text = "; ".join(", ".join(f"{name} {value}" for name, value in row.items()) for row in examples)
    raise InvalidArgumentError(
        f"{int(is_different.sum())} events differ from another event with the same key and sequence: {example_text}",
        hint="Give sequence_by a column that orders all events of a key",
        code="DELTA_AMBIGUOUS_SEQUENCE",
    )


def _text(value: Any) -> str:
    """A value as text, so that NaN is equal to NaN, and -0.0 to 0.0, as in ``Array.equals`` and in nested values."""
    if isinstance(value, float):
        return repr(value + 0.0)
    if isinstance(value, dict):
        return repr([(key, _text(member)) for key, member in value.items()])
    if isinstance(value, list | tuple):
        return repr([_text(element) for element in value])
    return repr(value)
