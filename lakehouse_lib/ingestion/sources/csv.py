"""Read CSV files as blocks of text columns, with the line where each row's record starts.

The file is cut into blocks of whole records (``records``), and pyarrow splits each of them into fields. The lines of
its output are counted, including quoted line breaks, blank lines and records with a wrong number of fields, but only if
rows are rejected or staged. A record without any value is a blank line.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from lakehouse_lib.arrow.values import as_array, int64s, literal, numbers_of
from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.file_part import FilePart
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.quarantine import FaultyRecords
from lakehouse_lib.ingestion.sources.blocks import RawBlock, TextBlock, column_mismatches, refusal
from lakehouse_lib.ingestion.sources.casts import decode_texts, mask
from lakehouse_lib.ingestion.sources.compression import open_content
from lakehouse_lib.ingestion.sources.records import (
    after_lines,
    check_escapes,
    first_record,
    record_blocks,
    without_comments,
)
from lakehouse_lib.ingestion.sources.source_format import SourceFormat

NOT_TEXT = "not valid {encoding} text"
_NO_BREAKS = literal(0, pa.int32())
_ROW = re.compile(r"(Row #)(\d+)")


@dataclass(frozen=True)
class _CsvBlock:
    """Whole records of a file.

    Attributes:
        number: the block's number in the file, from 0.
        data: the records in UTF-8, without comments.
        skipped_lines: the number of lines that are skipped before the block.
        header_lines: the number of lines of the header, which precede the records.
        comments: for each comment, the number of lines of the header and the records before it.
    """

    source_file: LandedFile
    number: int
    data: bytes
    columns: tuple[str, ...]
    skipped_lines: int
    header_lines: int
    comments: NDArray[np.int64]

    def file_lines(self, lines: Any) -> Any:
        """The lines in the file, for lines that were counted without skipped lines and comments."""
        return lines + self.skipped_lines + np.searchsorted(self.comments, lines, "right")


def read_csv(source_file: LandedFile, source_format: SourceFormat, schema: pa.Schema) -> Iterator[RawBlock[TextBlock]]:
    """The blocks of a file, in order. They can be parsed in other threads.

    Their parsing raises SourceRefusedError if pyarrow cannot split their block into records.

    Raises:
        SourceRefusedError: the columns do not fit the schema, or the file cannot be read as CSV to its end.
    """
    for block in _blocks(source_file, source_format, schema):
        yield RawBlock(
            block.data,
            block.skipped_lines + block.header_lines,
            block.columns,
            partial(_parsed, block, source_format, schema),
            partial(_parsed_text, block, source_format, schema),
        )


def header_names(source_file: LandedFile, source_format: SourceFormat) -> list[str]:
    """The names in a file's header; without a header ``column_1`` and so on.

    Raises:
        SourceRefusedError: the file cannot be read as CSV.
    """
    if not source_file.has_start:
        return list(_part_columns(source_file))
    with _refusals(source_file, source_format):
        for block in _record_blocks(source_file, source_format):
            data, _ = _without_comments(block, source_format)
            if not data:
                continue
            record = first_record(data, source_format.delimiter, source_format.quote)
            fields = list(_fields(record, source_format.delimiter, source_format.quote))
            return fields if source_format.header else [f"column_{number}" for number in range(1, len(fields) + 1)]
        raise pa.ArrowInvalid("Empty CSV file")


def _record_blocks(source_file: LandedFile, source_format: SourceFormat) -> Iterator[bytes]:
    with open_content(source_file) as stream:
        if not source_format.is_utf8:
            stream = pa.transcoding_input_stream(stream, source_format.encoding, "utf-8")
        has_start = source_file.has_start
        read = after_lines(stream.read, source_format.skip_lines if has_start else 0)
        signs = (source_format.delimiter, source_format.quote, source_format.comment)
        yield from record_blocks(read, *signs, line_breaks=source_format.line_breaks, has_start=has_start)


def _blocks(source_file: LandedFile, source_format: SourceFormat, schema: pa.Schema) -> Iterator[_CsvBlock]:
    """The records of a file; a file with only a header has a block without records."""
    columns, number, has_columns = tuple(schema.names), -1, not source_format.header
    has_start = source_file.has_start
    if not has_start and source_format.header:
        columns, has_columns = _part_columns(source_file), True
        _check_columns(columns, source_file, schema)
    with _refusals(source_file, source_format):
        for number, block in enumerate(_record_blocks(source_file, source_format)):
            data, comments = _without_comments(block, source_format)
            lines = 0
            if data and not has_columns:
                header = first_record(data, source_format.delimiter, source_format.quote)
                columns, lines = _columns(header, source_file, source_format, schema)
                data, has_columns = data[len(header) :], True
            skipped = source_format.skip_lines if number == 0 and has_start else 0
            yield _CsvBlock(source_file, number, data, columns, skipped, lines, comments)
        if has_start and (number < 0 or not has_columns):
            raise pa.ArrowInvalid("Empty CSV file")


def _without_comments(data: bytes, source_format: SourceFormat) -> tuple[bytes, NDArray[np.int64]]:
    if not source_format.comment:
        return data, np.zeros(0, np.int64)
    return without_comments(data, source_format.delimiter, source_format.quote, source_format.comment)


def _parsed_text(block: _CsvBlock, source_format: SourceFormat, schema: pa.Schema, data: bytes) -> TextBlock:
    """Records with the columns of a block."""
    text = replace(block, data=data, skipped_lines=0, header_lines=0, comments=np.zeros(0, np.int64))
    return _parsed(text, source_format, schema)


def _parsed(block: _CsvBlock, source_format: SourceFormat, schema: pa.Schema) -> TextBlock:
    invalid: list[tuple[int, int, str]] = []
    with _refusals(block.source_file, source_format):
        if not block.data:
            table = pa.Table.from_batches([], pa.schema([(name, pa.string()) for name in schema.names]))
        else:
            check_escapes(block.data, source_format.delimiter, source_format.quote)
            try:
                table, invalid = _table(block, source_format, schema, pa.string())
            except pa.ArrowInvalid:  # text that is not UTF-8 rejects its row and not the file
                try:
                    table, invalid = _table(block, source_format, schema, pa.binary())
                except pa.ArrowInvalid as error:
                    before = _records_before(block, source_format, schema)
                    text = _ROW.sub(lambda row: f"{row[1]}{int(row[2]) + before}", str(error))
                    raise pa.ArrowInvalid(text) from error
    return _text_block(block, table, invalid, source_format, schema)


def _columns(
    header: bytes, source_file: LandedFile, source_format: SourceFormat, schema: pa.Schema
) -> tuple[tuple[str, ...], int]:
    """The columns in a file's header, and its number of lines."""
    names = _fields(header, source_format.delimiter, source_format.quote)
    _check_columns(names, source_file, schema)
    return names, 1 + sum(name.count("\n") for name in names)


def _check_columns(names: tuple[str, ...], source_file: LandedFile, schema: pa.Schema) -> None:
    mismatches = column_mismatches(schema, names)
    if mismatches:
        raise refusal(source_file.name, mismatches)


def _part_columns(source_file: LandedFile) -> tuple[str, ...]:
    assert source_file.part is not None
    return source_file.part.columns


@lru_cache(16)  # many files have the same header
def _fields(record: bytes, delimiter: str, quote: str) -> tuple[str, ...]:
    """The fields of a record."""
    reader = csv.open_csv(
        pa.BufferReader(record),
        csv.ReadOptions(use_threads=False, block_size=len(record) + 1),
        _parse_options(delimiter, quote),
    )
    return tuple(reader.schema.names)


def _table(
    block: _CsvBlock, source_format: SourceFormat, schema: pa.Schema, kind: pa.DataType
) -> tuple[pa.Table, list[tuple[int, int, str]]]:
    """A block as columns of text or bytes, and its invalid records: number in the block, fields, text."""
    invalid: list[tuple[int, int, str]] = []

    def note(row: Any) -> str:
        invalid.append((row.number, row.actual_columns, row.text))
        return "skip"

    data = block.data
    if data.startswith(codecs.BOM_UTF8):  # this mark is text, so add another, which pyarrow removes
        data = codecs.BOM_UTF8 + data
    table = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=block.columns),
        _parse_options(source_format.delimiter, source_format.quote, note),
        csv.ConvertOptions(
            check_utf8=pa.types.is_string(kind),
            column_types=dict.fromkeys(schema.names, kind),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=list(source_format.null_texts),
        ),
    )
    return table, invalid


def _parse_options(delimiter: str, quote: str, note: Any = None) -> csv.ParseOptions:
    return csv.ParseOptions(
        delimiter=delimiter,
        quote_char=quote or False,
        double_quote=True,
        newlines_in_values=bool(quote),
        ignore_empty_lines=False,
        invalid_row_handler=note,
    )


def _text_block(
    block: _CsvBlock,
    table: pa.Table,
    invalid: list[tuple[int, int, str]],
    source_format: SourceFormat,
    schema: pa.Schema,
) -> TextBlock:
    rows = table.num_rows
    columns = [as_array(table.column(name)) for name in schema.names]
    texts, not_text = zip(*(_decoded(column) for column in columns), strict=True)
    encoding = codecs.lookup(source_format.encoding).name
    checks = [
        (name, NOT_TEXT.format(encoding=encoding), wrong)
        for name, wrong in zip(schema.names, not_text, strict=True)
        if wrong is not None
    ]
    row_lines = _RowLines(block, columns, invalid)
    faulty = FaultyRecords()
    for (_, fields, text), line in zip(invalid, row_lines.of_invalid() if invalid else (), strict=True):
        faulty.add(line, f"{fields} fields; expected {len(schema)}", text)
    keep: NDArray[np.int64] | None = None
    if rows and all(column.null_count for column in columns):  # a record without any value is a blank line
        valid = np.zeros(rows, bool)
        for column in columns:
            valid |= mask(pc.is_valid(column))
        if not valid.all():
            keep = np.flatnonzero(valid)
            texts = tuple(text.take(int64s(keep)) for text in texts)
            checks = [(name, reason, wrong[keep]) for name, reason, wrong in checks]
    return TextBlock(texts, lambda: row_lines.of_rows(keep), checks, faulty, row_lines.count)


def _decoded(column: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    if pa.types.is_string(column.type):
        return column, None
    text, wrong = decode_texts(column)
    return text, wrong if wrong.any() else None


class _RowLines:
    """The lines on which the records of a block start, from the block's first line, which is 0."""

    def __init__(self, block: _CsvBlock, columns: list[Any], invalid: list[tuple[int, int, str]]) -> None:
        self._block = block
        self._columns = columns
        self._invalid = invalid
        self._first = block.header_lines

    @property
    def count(self) -> int:
        """The number of lines of the block, including the lines of the header in the first block."""
        data = self._block.data
        return self._lines_of(data) + self._block.skipped_lines + len(self._block.comments)

    def _lines_of(self, data: bytes) -> int:
        if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):  # \r may end a record, or be part of a value
            return int(self._starts()[-1]) + sum(map(_lines, self._invalid))
        return self._first + data.count(b"\n")

    def of_rows(self, keep: NDArray[np.int64] | None) -> pa.Array:
        """The lines of the valid records, or of those with the numbers ``keep``."""
        extra = np.zeros(len(self._starts()), np.int64)  # lines of invalid records before each valid record
        for record, rows in zip(self._invalid, self._rows_before(), strict=True):
            extra[rows] += _lines(record)
        lines = (self._starts() + np.cumsum(extra))[:-1]
        return int64s(self._block.file_lines(lines if keep is None else lines[keep]))

    def of_invalid(self) -> list[int]:
        """The lines of the invalid records."""
        starts, earlier_lines, lines = self._starts(), 0, []
        for record, rows in zip(self._invalid, self._rows_before(), strict=True):
            lines.append(int(starts[rows]) + earlier_lines)
            earlier_lines += _lines(record)
        file_lines: list[int] = self._block.file_lines(np.array(lines, np.int64)).tolist()
        return file_lines

    def _rows_before(self) -> list[int]:
        """The number of valid records before each invalid record; records are numbered from 1."""
        return [record[0] - 1 - place for place, record in enumerate(self._invalid)]

    def _starts(self) -> NDArray[np.int64]:
        """The lines of the valid records, and the end of the last one, without the lines of invalid records."""
        breaks = np.ones(len(self._columns[0]), np.int64)
        for column in self._columns:
            if pc.any(pc.match_substring(column, "\n")).as_py():
                breaks += numbers_of(pc.fill_null(pc.count_substring(column, "\n"), _NO_BREAKS), np.int32)
        return self._first + np.concatenate([[0], np.cumsum(breaks)])


def _lines(record: tuple[int, int, str]) -> int:
    return 1 + record[2].rstrip("\r\n").count("\n")


def _records_before(block: _CsvBlock, source_format: SourceFormat, schema: pa.Schema) -> int:
    """The number of records before a block, the header included, for an error."""
    source_file, part = block.source_file, block.source_file.part
    before: Iterator[_CsvBlock] = islice(_blocks(source_file, source_format, schema), block.number)
    if part is not None and part.begin:
        start = replace(source_file, part=FilePart(0, 0, part.begin))
        before = chain(_blocks(start, source_format, schema), before)
    count = int(source_format.header)
    for earlier in before:
        if earlier.data:
            table, invalid = _table(earlier, source_format, schema, pa.binary())
            count += len(table) + len(invalid)
    return count


@contextmanager
def _refusals(source_file: LandedFile, source_format: SourceFormat) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, UnicodeError, pa.ArrowInvalid) as error:
        first_line = str(error).partition("\n")[0].rstrip(".")
        raise SourceRefusedError(
            f"{source_file.name} cannot be read as {source_format.encoding} CSV: {first_line}",
            hint="Land a complete file in its place, or correct the encoding and dialect of the source",
        ) from error
