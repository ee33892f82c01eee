"""The rows of a table that have one of many keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lakehouse_lib.engine.parquet.scan import Scan
from lakehouse_lib.expressions import Predicate, conjoin, from_filters
from lakehouse_lib.operations.dml.key_pruning import files_with_keys
from lakehouse_lib.operations.dml.merge import key_filters
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.threads import map_in_threads, processors


def rows_with_keys(snapshot: Snapshot, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows of a table that have one of the keys. Files are skipped by the keys' values or range.

    Args:
        keys: the values of the key columns, never NULL, in the table's types.
        columns: the columns of the result, which include all key columns.
    """
    predicate = key_predicate(snapshot, keys)
    distinct = keys.group_by(keys.column_names).aggregate([])
    scan = Scan.of(snapshot, columns, predicate)
    pairs = [(name, name) for name in keys.column_names]
    files = files_with_keys(snapshot.prune(predicate), snapshot.layout, pairs, distinct)
    threads = processors()
    parts = []
    for rows in map_in_threads(lambda load: load(), scan.loads(files), threads, ahead=threads):
        places = positions(rows, distinct, keys.column_names)
        if (places >= 0).any():
            parts.append(rows.filter(pa.array(places >= 0)))
    return pa.concat_tables(parts) if parts else scan.result_schema.empty_table()


def key_predicate(snapshot: Snapshot, keys: pa.Table) -> Predicate | None:
    """A predicate that is true for all rows with one of the keys, and for few others; None: no such predicate.

    Args:
        keys: as of ``rows_with_keys``.
    """
    predicate: Predicate | None = None
    for name in keys.column_names:
        filters = key_filters(snapshot.field(name), keys[name])
        if filters:
            predicate = conjoin(predicate, from_filters(filters, snapshot.schema, table=snapshot.store.root))
    return predicate


def positions(keys: pa.Table, rows: pa.Table, names: list[str]) -> np.ndarray:
    """For each of ``keys``, the position of the row with this key; -1 if there is none.

    Args:
        rows: at most one row for each key.
        names: the key columns.
    """
    rows, keys = key_columns(rows, names), key_columns(keys, names)
    numbered = rows.append_column("position", pa.array(np.arange(len(rows))))
    numbered_keys = keys.append_column("group", pa.array(np.arange(len(keys))))
    pairs = numbered_keys.join(numbered, keys.column_names, join_type="inner")
    places = np.full(len(keys), -1)
    places[pairs["group"].to_numpy()] = pairs["position"].to_numpy()
    return places


def key_columns(rows: pa.Table, names: list[str]) -> pa.Table:
    """The key columns, named ``k0``, ``k1`` and so on: a key may have the name of a column that is added to them."""
    return rows.select(names).rename_columns([f"k{place}" for place in range(len(names))])
