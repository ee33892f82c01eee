"""Parse a source file into typed rows and rejected rows, block by block, in bounded memory.

The same file and schema always give the same rows, so a redo after a crash is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools, int64s, null_scalar, numbers_of
from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.expressions import PredicateRule
from lakehouse_lib.ingestion.gate import Translation, violations
from lakehouse_lib.ingestion.gate.judgement import POSITIONS
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.limits import BEYOND_YEARS, MUST_NOT_BE_NULL, beyond_years, partition_faults
from lakehouse_lib.ingestion.quarantine import (
    FILE_COLUMN,
    LINE_COLUMN,
    RULES_COLUMN,
    Origin,
    broken_rows,
    faulty_cells,
    faulty_records,
    quarantine_schema,
)
from lakehouse_lib.ingestion.sources.blocks import (
    RawBlock,
    TextBlock,
    TypedBlock,
    column_mismatches,
    joined_parser,
    refusal,
)
from lakehouse_lib.ingestion.sources.casts import mask, type_name
from lakehouse_lib.ingestion.sources.cells import typed_cells
from lakehouse_lib.ingestion.sources.csv import header_names, read_csv
from lakehouse_lib.ingestion.sources.json.reader import read_json
from lakehouse_lib.ingestion.sources.orc import read_orc
from lakehouse_lib.ingestion.sources.parquet import read_parquet
from lakehouse_lib.ingestion.sources.source_format import ADD_COLUMNS, RESCUE, RESCUED, TYPED_KINDS, SourceFormat
from lakehouse_lib.ingestion.sources.time_format import TimeFormat
from lakehouse_lib.ingestion.tasks.line_origins import LineOrigins
from lakehouse_lib.ingestion.tasks.path_columns import PathColumns, file_schema
from lakehouse_lib.ingestion.tasks.rescued import json_objects, members, with_columns_of
from lakehouse_lib.ingestion.tasks.suite_findings import Findings, is_strict, judge_rows
from lakehouse_lib.store import PathLimits
from lakehouse_lib.threads import map_in_threads


@dataclass(frozen=True)
class Parser:
    """How the files of a source are parsed.

    Attributes:
        source_format: the format of the files.
        schema: the table's Arrow schema.
        partition_columns: those of the table. A row is rejected if no folder name can hold its value of such a column.
        limits: the path limits of the table's store.
        suite: judges the valid rows; None: the source has no suite, or it is judged later.
        table_rules: the table's rules for rows; a row that violates one is rejected.
    """

    source_format: SourceFormat
    schema: pa.Schema
    partition_columns: tuple[str, ...]
    limits: PathLimits
    suite: Translation | None = None
    table_rules: tuple[PredicateRule, ...] = ()

    def read(self, source_file: LandedFile, origin: Origin, threads: int) -> Iterator[ParsedBlock]:
        """The blocks of a file, in order; ``threads`` of them are parsed at a time (0: in the caller's thread).

        Raises:
            SourceRefusedError: the file does not fit the schema, or cannot be read to its end.
        """
        line = 1 if source_file.part is None else source_file.part.first_line
        blocks = map_in_threads(
            lambda parse: self._parsed(parse, origin), self._blocks(source_file), threads, ahead=threads
        )
        for block in blocks:
            yield block.placed(LineOrigins((origin.file,), (0,), (line,)))
            line += block.line_count

    def read_together(self, files: Sequence[LandedFile], origin: Origin) -> ParsedBlock | None:
        """Small files as one block; None: they have to be read one by one, because they cannot be joined.

        Args:
            origin: the origin of all rows; its file is not used.

        Raises:
            SourceRefusedError: one of the files does not fit the schema, or cannot be read to its end.
        """
        if not self._reads_plain_text:
            return None
        blocks: list[RawBlock[TextBlock | TypedBlock]] = []
        for file in files:
            of_file = [block for block in islice(self._blocks(file), 2) if isinstance(block, RawBlock)]
            if len(of_file) != 1:
                return None
            blocks += of_file
        parse = joined_parser(blocks)
        if parse is None:
            return None
        starts = np.cumsum([0, *(block.line_count for block in blocks)])[:-1]
        lines = [block.lines_before + 1 for block in blocks]
        origins = LineOrigins(tuple(file.name for file in files), tuple(map(int, starts)), tuple(lines))
        return self._parsed(parse, origin).placed(origins)

    @property
    def _reads_plain_text(self) -> bool:
        """Whether the blocks of several files may be joined: they are lines of text with the columns of the table."""
        read_as = self.source_format
        return read_as.kind in ("csv", "json") and not self._has_other_columns and not read_as.comment

    @property
    def _has_other_columns(self) -> bool:
        """Whether the table has columns that the files do not have: path columns or ``_rescued``."""
        return bool(self.source_format.path_columns) or self.source_format.evolution == RESCUE

    def _blocks(self, source_file: LandedFile) -> Iterator[Callable[[], TextBlock | TypedBlock]]:
        if not self._has_other_columns:
            return self._blocks_of(source_file, self.schema)
        columns = PathColumns(source_file.name, self.schema, self.source_format)
        blocks = self._blocks_of(source_file, file_schema(self.schema, self.source_format))
        return (partial(columns.added, parse) for parse in blocks)

    def _blocks_of(self, source_file: LandedFile, schema: pa.Schema) -> Iterator[Callable[[], TextBlock | TypedBlock]]:
        may_lack = self.source_format.evolution == ADD_COLUMNS
        if self.source_format.kind == "csv":
            return self._csv_blocks(source_file, schema)
        if self.source_format.kind in ("json", "json_array"):
            return read_json(source_file, self.source_format, schema)
        if self.source_format.kind == "orc":
            return read_orc(source_file, schema, may_lack=may_lack)
        return read_parquet(source_file, schema, may_lack=may_lack)

    def _csv_blocks(self, source_file: LandedFile, schema: pa.Schema) -> Iterator[Callable[[], TextBlock]]:
        """The blocks of a CSV file, which may lack columns, and may have other columns, if the source allows it."""
        evolution = self.source_format.evolution
        if evolution not in (RESCUE, ADD_COLUMNS):
            return read_csv(source_file, self.source_format, schema)
        own = header_names(source_file, self.source_format) if self.source_format.header else schema.names
        if evolution == ADD_COLUMNS and set(schema.names) <= set(own):
            return read_csv(source_file, self.source_format, schema)
        columns = pa.schema([(name, pa.string()) for name in own])
        allowed = [field for field in columns if evolution == RESCUE or field.name in schema.names]
        missing = [field for field in schema if not field.nullable and field.name not in own]
        mismatches = column_mismatches(pa.schema([*allowed, *missing]), own)
        if mismatches:
            raise refusal(source_file.name, mismatches)
        blocks = read_csv(source_file, self.source_format, columns)
        return (partial(with_columns_of, schema, own, parse) for parse in blocks)

    def _conform(self, block: TextBlock | TypedBlock, origin: Origin) -> ParsedBlock:
        columns: list[Any] = []
        rescued = list(block.rescued) if isinstance(block, TextBlock) else []
        rescues = self.source_format.evolution == RESCUE
        checks = list(block.checks) if isinstance(block, TypedBlock) else []
        block_checks = {name: (reason, wrong) for name, reason, wrong in block.checks}
        places = {name: place for place, name in enumerate(self.schema.names)}
        for index, field in enumerate(self.schema):
            if field.name in block.nested:
                nested = block.nested[field.name]
                column, wrong = nested.column, np.zeros(len(nested.column), bool)
                for path, reason, faulty_rows in nested.checks:
                    checks.append((path, reason, faulty_rows))
                    places.setdefault(path, index)
                    wrong |= faulty_rows
            elif isinstance(block, TypedBlock):
                column = block.columns[index]
                wrong = np.zeros(len(column), bool) if block.exact else block_checks[field.name][1]
            else:
                column, wrong = typed_cells(block.texts[index], field, self.source_format)
                if field.name in block_checks:
                    reason, garbled = block_checks.pop(field.name)
                    checks.append((field.name, reason, garbled))
                    wrong &= ~garbled
                if rescues and field.nullable and wrong.any():
                    rescued.append(members(field.name, block.texts[index], wrong))
                    wrong = np.zeros(len(column), bool)
                checks.append((field.name, f"not a valid {type_name(field.type)}", wrong))
            far = beyond_years(column)
            if far.any():
                checks.append((field.name, BEYOND_YEARS, far))
                column = pc.if_else(bools(far), null_scalar(column.type), column)
                wrong = wrong | far
            if not field.nullable and column.null_count:
                checks.append((field.name, MUST_NOT_BE_NULL, mask(pc.is_null(column)) & ~wrong))
            columns.append(column)
        texts = list(block.texts)
        if rescued:
            index = self.schema.names.index(RESCUED)
            columns[index] = texts[index] = json_objects(rescued, len(columns[0]))
        if isinstance(block, TextBlock):  # keys that are not in the schema
            checks.extend((name, reason, wrong) for name, (reason, wrong) in block_checks.items())
        checks.extend(partition_faults(columns, self.schema, self.partition_columns, self.limits))
        checks = [check for check in checks if check[2].any()]
        rows = pa.RecordBatch.from_arrays(columns, schema=rows_schema(self.schema))
        checks.extend(self._violations(rows, [wrong for _, _, wrong in checks]))
        if isinstance(block, TypedBlock) and block.exact is not None:
            return self._completed(block, rows, [wrong for _, _, wrong in checks], origin)
        checks.sort(key=lambda check: places.get(check[0], len(places)))
        faulty = faulty_records(self.schema, origin, block.faulty)
        if not checks:
            return ParsedBlock(rows, faulty, block.lines, block.line_count)
        lines = block.lines()
        is_good, bad = faulty_cells(self.schema, origin, texts, lines, checks)
        good = int64s(np.flatnonzero(is_good))
        return ParsedBlock(rows.take(good), pa.concat_tables([bad, faulty]), lambda: lines.take(good), block.line_count)

    def _completed(self, block: TypedBlock, rows: pa.RecordBatch, faulty: Sequence[Any], origin: Origin) -> ParsedBlock:
        """A block of typed rows, with its faulty rows and its other records parsed as text.

        Args:
            faulty: masks of the faulty rows.
        """
        assert block.exact is not None
        is_faulty = np.logical_or.reduce([np.zeros(len(rows), bool), *faulty])
        lines = block.lines
        texts = [] if block.rest is None else [block.rest]
        if is_faulty.any():
            texts.append(block.exact(np.flatnonzero(is_faulty)))
            good = int64s(np.flatnonzero(~is_faulty))
            rows, lines = rows.take(good), partial(lambda own: own().take(good), lines)
        typed = ParsedBlock(rows, faulty_records(self.schema, origin, block.faulty), lines, block.line_count)
        return in_order_of_lines([typed, *(self._conform(text, origin) for text in texts)]) if texts else typed

    def _violations(self, rows: pa.RecordBatch, faulty: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
        """The violations of the table's rules by rows without other faults, as the checks of ``faulty_cells``."""
        is_valid = ~np.logical_or.reduce([np.zeros(len(rows), bool), *faulty])
        for rule in self.table_rules:
            wrong = rule.violations(rows) & is_valid
            if wrong.any():
                yield min(rule.columns, key=self.schema.names.index), f"violates {rule.name}", wrong

    def _parsed(self, parse: Callable[[], TextBlock | TypedBlock], origin: Origin) -> ParsedBlock:
        block = self._judged(self._conform(parse(), origin), origin)
        return block.all_apart(self.schema) if self.suite is not None and self.suite.key_rules else block

    def _judged(self, block: ParsedBlock, origin: Origin) -> ParsedBlock:
        """The block after the suite has judged its valid rows."""
        suite = self.suite
        if suite is None:
            return block
        judged = judge_rows(suite, block.rows)
        if judged.passing is None:
            return replace(block, findings=judged.findings)
        lines = block.lines()
        files = pa.nulls(len(judged.failing), pa.string())
        failing = with_origin(block.rows.take(judged.failing), files, lines.take(judged.failing), self.schema)
        passing = replace(
            block,
            rows=block.rows.take(judged.passing),
            lines=partial(lines.take, judged.passing),
            findings=judged.findings,
        )
        if not is_strict(suite):
            return replace(passing, apart=failing.append_column(RULES_COLUMN, judged.positions))
        broken = violations(suite.row_rules, judged.positions, range(len(suite.row_rules)))
        rejected = broken_rows(self.schema, origin.source, origin.batch, failing, broken)
        return replace(passing, rejected=pa.concat_tables([block.rejected, rejected]))


@dataclass(frozen=True)
class ParsedBlock:
    """A block of a file.

    Attributes:
        rows: the valid rows except ``apart``, in the schema's types.
        rejected: the rejected rows, in the quarantine's schema.
        lines: returns the line where each valid row starts, counted from 0 at the start of the block.
        line_count: the number of lines of the block.
        origins: the source file and line of each line of the block; None: they are not known yet.
        findings: the findings of the suite about the valid rows; None: ``Parser`` has no suite.
        apart: valid rows that are neither in ``rows`` nor in ``rejected``, because the whole batch decides about them.
            They have their file, line and ``RULES_COLUMN``. None: there are none.
    """

    rows: pa.RecordBatch
    rejected: pa.Table
    lines: Callable[[], Any]
    line_count: int
    origins: LineOrigins | None = None
    findings: Findings | None = None
    apart: pa.RecordBatch | None = None

    def placed(self, origins: LineOrigins) -> ParsedBlock:
        """The block with the files and lines that rejected rows and rows set apart come from."""
        apart = None if self.apart is None else _placed(self.apart, FILE_COLUMN, LINE_COLUMN, origins)
        rejected = _placed(self.rejected, "_file", "_line", origins) if len(self.rejected) else self.rejected
        return replace(self, rejected=rejected, origins=origins, apart=apart)

    def all_apart(self, schema: pa.Schema) -> ParsedBlock:
        """The block with all valid rows set apart."""
        count = self.rows.num_rows
        rows = with_origin(self.rows, pa.nulls(count, pa.string()), self.lines(), schema)
        unbroken = pa.repeat(pa.scalar([], POSITIONS), count)
        batches = [rows.append_column(RULES_COLUMN, unbroken), *([] if self.apart is None else [self.apart])]
        return replace(self, rows=self.rows.slice(0, 0), lines=partial(int64s, ()), apart=pa.concat_batches(batches))

    def staged(self, schema: pa.Schema) -> pa.RecordBatch:
        """The valid rows with their files and lines, as they are staged."""
        assert self.origins is not None
        return with_origin(self.rows, *self.origins.of(self.lines()), schema)

    @property
    def row_count(self) -> int:
        """The number of its rows: valid, rejected and set apart."""
        return int(self.rows.num_rows + self.rejected.num_rows + (0 if self.apart is None else self.apart.num_rows))

    @property
    def size(self) -> int:
        """Its size in memory, in bytes."""
        return int(self.rows.nbytes + self.rejected.nbytes + (0 if self.apart is None else self.apart.nbytes))


def in_order_of_lines(parts: Sequence[ParsedBlock]) -> ParsedBlock:
    """Join parts of one block. Their rows are ordered by line; their rejected rows are in the order of the parts."""
    lines = pa.concat_arrays([part.lines() for part in parts])
    order = int64s(np.argsort(numbers_of(lines, np.int64), kind="stable"))
    return ParsedBlock(
        pa.concat_batches([part.rows for part in parts]).take(order),
        pa.concat_tables([part.rejected for part in parts]),
        lambda: lines.take(order),
        parts[0].line_count,
    )


def rows_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of parsed rows: the table's columns, all nullable, because ``Parser`` checks NOT NULL itself."""
    return pa.schema([field.with_nullable(True).remove_metadata() for field in schema])


def with_origin(rows: pa.RecordBatch, files: Any, lines: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Parsed rows with their files and lines, as they are staged."""
    return pa.RecordBatch.from_arrays([*rows.columns, files, lines], schema=staged_schema(schema))


def _placed(rows: Any, file: str, line: str, origins: LineOrigins) -> Any:
    """Rows with the file, and the line in the file, in place of the line in the block."""
    lines = rows.column(line)
    values = origins.of(lines.combine_chunks() if isinstance(lines, pa.ChunkedArray) else lines)
    for name, column in zip((file, line), values, strict=True):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), column)
    return rows


def staged_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of staged rows: the table's columns, then each row's file and line."""
    return pa.schema([*rows_schema(schema), pa.field(FILE_COLUMN, pa.string()), pa.field(LINE_COLUMN, pa.int64())])


def check_schema(schema: pa.Schema, source_format: SourceFormat) -> None:
    """Check, before any file is read, that files of this format can fill the schema.

    Raises:
        InvalidSchemaError: the schema has nested columns, and the format is CSV; or a time format is not for a time of
            CSV or JSON files; or a path column is nested or not in the schema; or all columns are path columns; or a
            column has the name of one that the load adds.
    """
    quarantine_schema(schema)
    path_columns = source_format.path_columns
    unknown = [name for name in path_columns if name not in schema.names or pa.types.is_nested(schema.field(name).type)]
    if unknown or len(path_columns) == len(schema):
        raise InvalidSchemaError(
            f"the path columns are {', '.join(path_columns)}; expected some of the schema's plain columns",
            hint="Correct the names, or the schema",
        )
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested and source_format.kind == "csv":
        raise InvalidSchemaError(
            f"columns {', '.join(nested)} are nested; expected plain columns for CSV files",
            hint="Load nested columns from JSON, Parquet or ORC",
        )
    for name, pattern in source_format.time_formats.items():
        kind = schema.field(name).type if name in schema.names else None
        is_date = kind is not None and pa.types.is_date(kind) and not TimeFormat(pattern).has_time
        is_time = kind is not None and pa.types.is_timestamp(kind)
        problem = None
        if source_format.kind in TYPED_KINDS:
            problem = f"{source_format.kind} files have no time formats; expected CSV or JSON files"
        elif kind is None:
            problem = "the column is not in the schema; expected a column of the schema"
        elif not (is_date or is_time):
            problem = f"the column is {type_name(kind)}; expected a timestamp, or a date if the format has no time"
        if problem is not None:
            raise InvalidSchemaError(
                f"the time format {pattern!r} of the column {name} cannot be used: {problem}",
                hint="Correct the column, its type, or its format",
            )
