"""The parse task: read one source file into two staged Parquet files, typed rows and rejected rows.

It runs in a worker of the engine, in bounded memory, and needs only this library and pyarrow. The same file and schema
always give the same rows, so a redo after a crash is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.errors import InvalidSchemaError, SourceRefusedError
from lakehouse_lib.ingestion.landing import Fingerprint, LandedFile, Landing
from lakehouse_lib.ingestion.limits import beyond_years, partition_faults
from lakehouse_lib.ingestion.quarantine import (
    FILE_COLUMN,
    LINE_COLUMN,
    Origin,
    faulty_cells,
    faulty_records,
    quarantine_schema,
)
from lakehouse_lib.ingestion.sources.blocks import TextBlock, TypedBlock
from lakehouse_lib.ingestion.sources.casts import from_text, mask, type_name
from lakehouse_lib.ingestion.sources.csv import read_csv
from lakehouse_lib.ingestion.sources.json import read_json
from lakehouse_lib.ingestion.sources.parquet import read_parquet
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.store import ObjectStore

MUST_NOT_BE_NULL = "null in a column that must not be null"

#: A row for each source file. ``path``, ``size``: the file of staged rows and its bytes ("" and 0 without rows).
#: ``refused``: the reason why the whole file was rejected. ``changed``: the file differs from its fingerprint.
REPORT_SCHEMA = pa.schema(
    [
        *FILE_SCHEMA,
        pa.field("source", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("rejected_path", pa.string()),
        pa.field("rejected", pa.int64()),
        pa.field("refused", pa.string()),
        pa.field("changed", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class ParseTask:
    """One source file to parse.

    Attributes:
        landing: the landing folder; executors must see a local one under the same path.
        file: the file's fingerprint in the intent.
        origin: the origin of its rows, for the quarantine.
        schema: the table's Arrow schema.
        store, prefix: the table's store, and the path prefix of the staged files, unique to this task.
        partition_columns: the table's; a row whose value cannot name a folder is quarantined.
    """

    landing: Landing
    file: Fingerprint
    origin: Origin
    source_format: SourceFormat
    schema: pa.Schema
    store: ObjectStore
    prefix: str
    partition_columns: tuple[str, ...] = ()


def staged_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of staged rows: the table's columns, then each row's file and line."""
    nullable = [field.with_nullable(True).remove_metadata() for field in schema]
    return pa.schema([*nullable, pa.field(FILE_COLUMN, pa.string()), pa.field(LINE_COLUMN, pa.int64())])


def check_schema(schema: pa.Schema, source_format: SourceFormat) -> None:
    """Check, before any file is read, that files of this format can fill the schema.

    Raises:
        InvalidSchemaError: the schema has nested columns, and the format is not Parquet.
    """
    quarantine_schema(schema)
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested and source_format.kind != "parquet":
        raise InvalidSchemaError(
            f"columns {', '.join(nested)} are nested; expected plain columns for {source_format.kind} files",
            hint="Load nested columns from Parquet",
        )


def parse_file(task: ParseTask) -> pa.Table:
    """Stage one file; returns its row of ``REPORT_SCHEMA``. A rejected file is reported there and raises nothing."""
    file = LandedFile(task.landing, task.file)
    if file.is_changed():
        return _report(task, changed=True)
    rows = rejected = 0
    rows_path, rejected_path = f"{task.prefix}-rows.parquet", f"{task.prefix}-rejected.parquet"
    try:
        with ExitStack() as stack:
            rows_writer = rejected_writer = None
            for good, bad in _parsed(file, task):
                if good.num_rows:
                    rows_writer = rows_writer or stack.enter_context(_StagedFile(task.store, rows_path, good.schema))
                    rows_writer.write_table(good)
                    rows += good.num_rows
                if bad.num_rows:
                    rejected_writer = rejected_writer or stack.enter_context(
                        _StagedFile(task.store, rejected_path, bad.schema)
                    )
                    rejected_writer.write_table(bad)
                    rejected += bad.num_rows
    except SourceRefusedError as error:
        # A file that is still being written looks damaged; it is reported as changed and not rejected.
        return _report(task, changed=True) if file.is_changed() else _report(task, refused=error.description)
    if file.is_changed():
        return _report(task, changed=True)
    return _report(task, rows, rows_path, rejected, rejected_path)


def _parsed(file: LandedFile, task: ParseTask) -> Iterator[tuple[pa.Table, pa.Table]]:
    blocks: Iterator[TextBlock | TypedBlock]
    if task.source_format.kind == "csv":
        blocks = read_csv(file, task.source_format, task.schema)
    elif task.source_format.kind == "json":
        blocks = read_json(file, task.source_format, task.schema)
    else:
        blocks = read_parquet(file, task.schema)
    return (_conform(block, task) for block in blocks)


def _conform(block: TextBlock | TypedBlock, task: ParseTask) -> tuple[pa.Table, pa.Table]:
    """A block's valid rows, typed, and its faulty rows in the quarantine's schema."""
    columns: list[Any] = []
    checks = list(block.checks) if isinstance(block, TypedBlock) else []
    block_checks = {name: (reason, wrong) for name, reason, wrong in block.checks}
    for index, field in enumerate(task.schema):
        if isinstance(block, TypedBlock):
            column, wrong = block.columns[index], block_checks[field.name][1]
        else:
            column, wrong = from_text(block.texts[index], field.type)
            if field.name in block_checks:
                reason, garbled = block_checks.pop(field.name)
                checks.append((field.name, reason, garbled))
                wrong &= ~garbled
            checks.append((field.name, f"not a valid {type_name(field.type)}", wrong))
        far = beyond_years(column)
        if far.any():
            checks.append((field.name, "a year outside 1 to 9999", far))
            column = pc.if_else(pa.array(far), None, column)
            wrong = wrong | far
        if not field.nullable:
            checks.append((field.name, MUST_NOT_BE_NULL, mask(pc.is_null(column)) & ~wrong))
        columns.append(column)
    if isinstance(block, TextBlock):
        checks.extend((name, reason, wrong) for name, (reason, wrong) in block_checks.items())  # keys not in the schema
    checks.extend(partition_faults(columns, task.schema, task.partition_columns, task.store.limits))
    places = {name: place for place, name in enumerate(task.schema.names)}
    checks = sorted((check for check in checks if check[2].any()), key=lambda check: places.get(check[0], len(places)))
    faulty = faulty_records(task.schema, task.origin, block.faulty)
    file_names = pa.repeat(pa.scalar(task.file.name, pa.string()), len(block.lines))
    good = pa.Table.from_arrays([*columns, file_names, block.lines], schema=staged_schema(task.schema))
    if not checks:
        return good, faulty
    is_good, bad = faulty_cells(task.schema, task.origin, block.texts, block.lines, checks)
    return good.take(pa.array(np.flatnonzero(is_good))), pa.concat_tables([bad, faulty])


class _StagedFile:
    """A Parquet writer and its output stream, closed in that order."""

    def __init__(self, store: ObjectStore, path: str, schema: pa.Schema) -> None:
        self._stream = store.open_output(path)
        self._writer = pq.ParquetWriter(self._stream, schema, compression="snappy")

    def __enter__(self) -> _StagedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._stream.close()

    def write_table(self, table: pa.Table) -> None:
        self._writer.write_table(table)


def _report(
    task: ParseTask,
    rows: int = 0,
    rows_path: str = "",
    rejected: int = 0,
    rejected_path: str = "",
    *,
    refused: str | None = None,
    changed: bool = False,
) -> pa.Table:
    meta = task.store.head(rows_path) if rows else None
    values = {
        "path": rows_path if rows else "",
        "size": meta.size if meta is not None else 0,
        "source": task.file.name,
        "rows": rows,
        "rejected_path": rejected_path if rejected else "",
        "rejected": rejected,
        "refused": refused,
        "changed": changed,
    }
    return pa.Table.from_arrays(
        [pa.repeat(pa.scalar(values.get(field.name), field.type), 1) for field in REPORT_SCHEMA], schema=REPORT_SCHEMA
    )
