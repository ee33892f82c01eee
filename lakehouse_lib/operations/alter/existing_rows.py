"""The check that the rows of a table satisfy a new rule."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.matching import positions_of, rows_at
from lakehouse_lib.engine.parquet.reader import COPIED_COLUMNS, TableReader
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.operations.dml.apply import live_matches
from lakehouse_lib.schema import SHOWN_ROWS, RowRule, constraint_violated
from lakehouse_lib.snapshot import Snapshot


def check_existing_rows(snapshot: Snapshot, rule: RowRule, violation: Predicate, engine: Engine) -> None:
    """Refuse a rule that rows of the table violate. Files that satisfy the rule by their statistics are not read.

    Args:
        violation: the predicate that is true for rows that violate the rule.

    Raises:
        ConstraintViolatedError: rows violate the rule; the message has their number, and up to ten of these rows.
    """
    files = snapshot.prune(violation)
    if not len(files):
        return
    matches, count = live_matches(files, engine.match(snapshot, files, violation), snapshot)
    if not count:
        return
    rows = "1 row" if count == 1 else f"{count} rows"
    raise constraint_violated(rule, rows, _first_rows(snapshot, files, matches), snapshot.store.root)


def _first_rows(snapshot: Snapshot, files: pa.Table, matches: pa.Table) -> pa.Table:
    """The first matching rows, at most SHOWN_ROWS."""
    reader = TableReader(snapshot.store, snapshot.layout, snapshot.schema)
    sources = files.take(pc.index_in(matches["source"].combine_chunks(), files["path"].combine_chunks()))
    rows: list[pa.Table] = []
    for index, positions in enumerate(positions_of(matches)):
        count = SHOWN_ROWS - sum(map(len, rows))
        if count <= 0:
            break
        first = BitMap64(positions[:count])
        rows += rows_at(reader, sources.select([*COPIED_COLUMNS]).slice(index, 1), [first.serialize()])
    return pa.concat_tables(rows)
