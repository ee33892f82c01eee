"""The quarantine table: a row for each rejected source row, with the reasons.

===============  ======================================================================================
source columns   string: the text in the source file; if a rule was broken, the typed value as text
``_source``      the source's name
``_batch``       the number of the batch
``_file``        the source file's name
``_line``        the line where the record starts, header included, from 1; Parquet, ORC: the row number
``_column``      the first faulty column in the schema's order, or the path to the faulty value inside it;
                 NULL: the whole row is faulty
``_reason``      the first fault: ``not a valid decimal(15,2)``, ``7 fields; expected 9``, or the rule's id
``_rule``        the id of the broken rule, else NULL
``_violations``  all faults of the row: array of struct<column, reason, rule>
``_raw``         the text of a record that could not be split into columns, else NULL
===============  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import int64s, literal, numbers_of
from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.ingestion.tasks.spark_texts import spark_texts

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

#: Additional columns of staged rows: each row's file and line, and the positions of the rules that it breaks.
FILE_COLUMN, LINE_COLUMN, RULES_COLUMN = "__file", "__line", "__rules"


@dataclass(frozen=True)
class Origin:
    """The origin that all rows of one source file share."""

    source: str
    batch: int
    file: str


@dataclass
class FaultyRecords:
    """Records that could not be split into the schema's columns. They are few, so parallel lists are enough."""

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
        InvalidSchemaError: a source column has the name of a column that the load adds.
    """
    reserved = {
        name.lower() for name in (FILE_COLUMN, LINE_COLUMN, RULES_COLUMN, *(column.name for column in META_FIELDS))
    }
    clash = [name for name in schema.names if name.lower() in reserved]
    if clash:
        raise InvalidSchemaError(
            f"the source columns {', '.join(clash)} have reserved names: the load adds columns with these names",
            hint="Rename them in the source",
            code="DELTA_INVALID_COLUMN_NAME",
        )
    return pa.schema([*(pa.field(name, pa.string()) for name in schema.names), *META_FIELDS])


def faulty_cells(
    schema: pa.Schema, origin: Origin, texts: Sequence[Any], lines: Any, checks: Sequence[tuple[str, str, Any]]
) -> tuple[Any, pa.Table]:
    """Split a block's rows into valid and faulty rows.

    Args:
        texts: the block's columns as strings, in the schema's order.
        lines: each row's line, int64.
        checks: (column, reason, mask of the faulty rows), in the schema's order.

    Returns:
        the mask of the valid rows, and the faulty rows in the quarantine's schema.
    """
    violation_mask = np.stack([check[2] for check in checks], axis=1) if checks else np.zeros((len(lines), 0), bool)
    faulty = violation_mask.any(axis=1)
    rows = np.flatnonzero(faulty)
    violation_mask = violation_mask[rows]
    check_numbers = int64s(np.nonzero(violation_mask)[1])
    offsets = np.concatenate([[0], np.cumsum(violation_mask.sum(axis=1))])
    columns = _texts([check[0] for check in checks]).take(check_numbers)
    reasons = _texts([check[1] for check in checks]).take(check_numbers)
    violations = pa.ListArray.from_arrays(
        _offsets(offsets),
        pa.StructArray.from_arrays([columns, reasons, pa.nulls(len(columns), pa.string())], fields=list(VIOLATION)),
    )
    first = int64s(offsets[:-1])
    row_numbers = int64s(rows)
    return ~faulty, _quarantine_rows(
        schema,
        origin,
        [text.take(row_numbers) for text in texts],
        lines.take(row_numbers),
        columns.take(first),
        reasons.take(first),
        violations,
        pa.nulls(len(rows), pa.string()),
    )


def faulty_records(schema: pa.Schema, origin: Origin, records: FaultyRecords) -> pa.Table:
    """Faulty records in the quarantine's schema: source columns are NULL, and ``_raw`` has the record."""
    count = len(records.lines)
    nulls = pa.nulls(count, pa.string())
    reasons = _texts(records.reasons)
    violations = pa.ListArray.from_arrays(
        _offsets(np.arange(count + 1)),
        pa.StructArray.from_arrays([nulls, reasons, nulls], fields=list(VIOLATION)),
    )
    return _quarantine_rows(
        schema,
        origin,
        [nulls] * len(schema),
        int64s(records.lines),
        nulls,
        reasons,
        violations,
        _texts(records.raw),
    )


def broken_rows(schema: pa.Schema, source: str, batch: int, rows: pa.RecordBatch, violations: pa.Array) -> pa.Table:
    """Rows that break rules, in the quarantine's schema.

    Args:
        rows: typed rows, with their file and line.
        violations: the violations of each row, at least one.
    """
    lengths = numbers_of(pc.list_value_length(violations), np.int32)
    first = violations.flatten().take(int64s(np.cumsum(lengths) - lengths))
    columns = [spark_texts(rows.column(name)) for name in schema.names]
    return pa.Table.from_arrays(
        [
            *columns,
            pa.repeat(literal(source, pa.string()), rows.num_rows),
            pa.repeat(literal(batch, pa.int64()), rows.num_rows),
            rows.column(FILE_COLUMN),
            rows.column(LINE_COLUMN),
            *(pc.struct_field(first, name) for name in ("column", "reason", "rule")),
            violations,
            pa.nulls(rows.num_rows, pa.string()),
        ],
        schema=quarantine_schema(schema),
    )


def _quarantine_rows(
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
            pa.repeat(literal(origin.source, pa.string()), count),
            pa.repeat(literal(origin.batch, pa.int64()), count),
            pa.repeat(literal(origin.file, pa.string()), count),
            lines,
            columns,
            reasons,
            pa.nulls(count, pa.string()),
            violations,
            raw,
        ],
        schema=quarantine_schema(schema),
    )


def _offsets(ends: Any) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(ends), [None, pa.py_buffer(np.ascontiguousarray(ends, np.int32))])


def _texts(values: Sequence[str]) -> Any:
    # pa.array of a list of str imports pandas, which takes a second in a new worker.
    encoded = [value.encode("utf-8", "replace") for value in values]
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in encoded])]).astype(np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)))
