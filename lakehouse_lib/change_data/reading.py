"""Reading of a change feed, with either engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa

from lakehouse_lib.change_data.feed import ChangeFeed
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.snapshot import Snapshot


def read_changes(feed: ChangeFeed, engine: Engine, columns: Sequence[str] | None, predicate: Predicate | None) -> Any:
    """The rows of the feed for which ``predicate`` is true.

    Args:
        columns: of ``feed.schema``; None: all.

    Returns:
        From the Arrow engine a ``pa.RecordBatchReader``, in the order of the commits and in bounded memory; from Spark
        a DataFrame without an order.
    """
    if engine.name == "spark":
        frames = [engine.read(table, columns, predicate) for table in feed.by_file()]
        return reduce(lambda left, right: left.unionAll(right), frames)
    tables = feed.in_order()
    first = engine.read(tables[0], columns, predicate)
    return pa.RecordBatchReader.from_batches(first.schema, _batches(first, tables[1:], engine, columns, predicate))


def _batches(
    first: pa.RecordBatchReader,
    tables: Sequence[Snapshot],
    engine: Engine,
    columns: Sequence[str] | None,
    predicate: Predicate | None,
) -> Iterator[pa.RecordBatch]:
    yield from first
    for table in tables:
        yield from engine.read(table, columns, predicate)
