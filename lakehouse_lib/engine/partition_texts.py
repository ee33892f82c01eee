"""Partition values as the texts that the log stores, and rows split by their partition values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError
from lakehouse_lib.protocol import partition_values

_SHOWN_CHARACTERS = 40


def rows_by_partition(table: pa.Table, target: WriteTarget) -> Iterator[tuple[tuple[str | None, ...], pa.Table]]:
    """The rows of each partition, and its partition values in the spelling of the log.

    Raises:
        InvalidArgumentError: the log or the store cannot store a value; the error names the column.
    """
    if not len(table):
        return
    partition_columns = target.layout.partition_columns
    if not partition_columns:
        yield (), table
        return
    codes = np.zeros(len(table), dtype=np.int64)
    for name in partition_columns:
        encoded = table.column(name).combine_chunks().dictionary_encode()
        indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        # ``np.unique`` renumbers the codes after each column, because the product of many columns could overflow.
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + indices, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ordered = table.take(pa.array(order)) if len(starts) > 1 else table
    firsts = ordered.take(pa.array(starts))
    spelled = [partition_texts(firsts.column(name), name, target) for name in partition_columns]
    _refuse_overlong(spelled, target)
    for values, start, end in zip(zip(*spelled, strict=True), starts, [*starts[1:], len(table)], strict=True):
        yield values, ordered.slice(start, end - start)


def _refuse_overlong(spelled: Sequence[list[str | None]], target: WriteTarget) -> None:
    columns = dict(zip(target.layout.partition_keys.values(), target.layout.partition_columns, strict=True))
    values = {key: pa.array(texts, pa.string()) for key, texts in zip(columns, spelled, strict=True)}
    for key, problem, is_overlong in partition_values.overlong_folders(values, target.store.limits):
        text = values[key].filter(is_overlong)[0].as_py() or ""
        shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
        raise InvalidArgumentError(
            f"column {columns[key]}: the partition value {shown!r} of {len(text.encode())} bytes {problem}",
            table=target.store.root,
            hint=partition_values.LENGTH_HINT,
            code="DELTA_INVALID_PARTITION_VALUE",
        )


def partition_texts(values: pa.Array | pa.ChunkedArray, name: str, target: WriteTarget) -> list[str | None]:
    """The values of a partition column as the text that the log stores.

    Raises:
        InvalidArgumentError: the log cannot store a value as text; the error names the column.
    """
    try:
        texts: list[str | None] = partition_values.to_strings(values, target.layout.schema.field(name).type).to_pylist()
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"column {name}: {error.message}",
            table=target.store.root,
            hint=error.hint,
            code="DELTA_INVALID_PARTITION_VALUE",
        ) from error
    return texts


def logged_values(parsed: Sequence[Mapping[str, str | None]], target: WriteTarget) -> list[dict[str, str | None]]:
    """The ``partitionValues`` of files, each value in the spelling of the log.

    Args:
        parsed: for each file, the text of each value by the column's physical name.

    Raises:
        InvalidArgumentError: a text is not a valid value of its column; the error names the column.
    """
    keys = target.layout.partition_keys
    spelled: dict[str, list[str | None]] = {}
    for name, key in keys.items():
        kind = target.layout.schema.field(name).type
        try:
            typed = partition_values.to_typed(pa.array([values[key] for values in parsed], pa.string()), kind)
        except LogCorruptedError as error:
            raise InvalidArgumentError(
                f"column {name}: {error.message}",
                table=target.store.root,
                hint="Give the column a type that fits the text; dates and times have years from 0 to 9999",
                code="DELTA_INVALID_PARTITION_VALUE",
            ) from error
        spelled[key] = partition_texts(typed, name, target)
    return [{key: spelled[key][index] for key in keys.values()} for index in range(len(parsed))]
