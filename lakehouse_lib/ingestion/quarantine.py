"""The quarantine table: one row a faulty source row, with what is wrong with it.

===============  ======================================================================================
source columns   as string: the text as it came (of a rule's breach: the text form of the typed value)
``_source``      the source's name
``_batch``       the batch it came in
``_file``        the source file's name
``_line``        where its record starts: physical line, header included, from 1; of Parquet the row, from 1
``_column``      the first faulty column in the schema's order; NULL when the whole row is at fault
``_reason``      what is wrong there: ``not a valid decimal(15,2)``, ``expected 9 fields, got 7``, or the rule's id
``_rule``        the rule's id when an expectation was broken, else NULL
``_violations``  everything that is wrong with the row: array of struct<column, reason, rule>
``_raw``         the record as it came when it could not be taken apart into columns, else NULL
===============  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse_lib.errors import InvalidSchemaError

VIOLATION = pa.struct([pa.field(name, pa.string()) for name in ("column", "reason", "rule")])

META_FIELDS = (
    pa.field("_source", pa.string()),
    pa.field("_batch", pa.int64()),
    pa.field("_file", pa.string()),
    pa.field("_line", pa.int64()),
    pa.field("_column", pa.string()),
    pa.field("_reason", pa.string()),
    pa.field("_rule", pa.string()),
    pa.field("_violations", pa.list_(VIOLATION)),
    pa.field("_raw", pa.string()),
)

#: Columns beside the schema's in staged rows: where a row came from.
FILE_COLUMN, LINE_COLUMN = "__file", "__line"


@dataclass(frozen=True)
class Origin:
    """What all rows of one source file have in common."""

    source: str
    batch: int
    file: str


@dataclass
class FaultyRecords:
    """Records that could not be taken apart into the schema's columns, as parallel lists: they are the exception."""

    lines: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)

    def add(self, line: int, reason: str, raw: str) -> None:
        self.lines.append(line)
        self.reasons.append(reason)
        self.raw.append(raw)


def quarantine_schema(schema: pa.Schema) -> pa.Schema:
    """The quarantine table's schema for a source of this schema.

    Raises:
        InvalidSchemaError: a source column has the name of one that the load adds.
    """
    taken = {name.lower() for name in (FILE_COLUMN, LINE_COLUMN, *(column.name for column in META_FIELDS))}
    clash = [name for name in schema.names if name.lower() in taken]
    if clash:
        raise InvalidSchemaError(
            f"columns {', '.join(clash)} have names that the load needs for itself",
            hint="Rename them in the source",
            code="DELTA_INVALID_COLUMN_NAME",
        )
    return pa.schema([*(pa.field(name, pa.string()) for name in schema.names), *META_FIELDS])


def faulty_cells(
    schema: pa.Schema, origin: Origin, texts: Sequence[Any], lines: Any, checks: Sequence[tuple[str, str, Any]]
) -> tuple[Any, pa.Table]:
    """Split a block's rows by what the checks found.

    Args:
        texts: the block's columns as strings, in the schema's order.
        lines: each row's line, int64.
        checks: (column, reason, mask of the rows where it holds), in the schema's order.

    Returns:
        the mask of the good rows, and the faulty ones in the quarantine's layout.
    """
    violation_mask = np.stack([check[2] for check in checks], axis=1) if checks else np.zeros((len(lines), 0), bool)
    faulty = violation_mask.any(axis=1)
    rows = np.flatnonzero(faulty)
    violation_mask = violation_mask[rows]
    which = pa.array(np.nonzero(violation_mask)[1])
    offsets = np.concatenate([[0], np.cumsum(violation_mask.sum(axis=1))]).astype(np.int32)
    columns = _texts([check[0] for check in checks]).take(which)
    reasons = _texts([check[1] for check in checks]).take(which)
    violations = pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.StructArray.from_arrays([columns, reasons, pa.nulls(len(columns), pa.string())], fields=list(VIOLATION)),
    )
    first = pa.array(offsets[:-1])
    taken = pa.array(rows)
    return ~faulty, _quarantined(
        schema,
        origin,
        [text.take(taken) for text in texts],
        lines.take(taken),
        columns.take(first),
        reasons.take(first),
        violations,
        pa.nulls(len(rows), pa.string()),
    )


def faulty_records(schema: pa.Schema, origin: Origin, records: FaultyRecords) -> pa.Table:
    """Records that are not rows of the schema, in the quarantine's layout: no columns, the record in ``_raw``."""
    count = len(records.lines)
    nothing = pa.nulls(count, pa.string())
    reasons = _texts(records.reasons)
    violations = pa.ListArray.from_arrays(
        pa.array(np.arange(count + 1, dtype=np.int32)),
        pa.StructArray.from_arrays([nothing, reasons, nothing], fields=list(VIOLATION)),
    )
    return _quarantined(
        schema,
        origin,
        [nothing] * len(schema),
        pa.array(np.array(records.lines, np.int64)),
        nothing,
        reasons,
        violations,
        _texts(records.raw),
    )


def _quarantined(
    schema: pa.Schema,
    origin: Origin,
    texts: Iterable[Any],
    lines: Any,
    columns: Any,
    reasons: Any,
    violations: Any,
    raw: Any,
) -> pa.Table:
    count = len(lines)
    return pa.Table.from_arrays(
        [
            *texts,
            pa.repeat(pa.scalar(origin.source, pa.string()), count),
            pa.repeat(pa.scalar(origin.batch, pa.int64()), count),
            pa.repeat(pa.scalar(origin.file, pa.string()), count),
            lines,
            columns,
            reasons,
            pa.nulls(count, pa.string()),
            violations,
            raw,
        ],
        schema=quarantine_schema(schema),
    )


def _texts(values: Sequence[str]) -> Any:
    # pa.array over a Python list imports pandas, a second in a cold worker.
    encoded = [value.encode("utf-8", "replace") for value in values]
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in encoded])]).astype(np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))
