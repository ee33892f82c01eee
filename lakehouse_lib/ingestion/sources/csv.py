"""Read CSV files as blocks of text columns, with the line where each row's record starts.

pyarrow splits the records. The lines of its output are counted, including quoted line breaks, blank lines and records
with a wrong number of fields. A record without any value is a blank line.

An end mark is appended to the file as its last record. If it is missing in pyarrow's output, it is part of a quoted
field that is never closed.
"""

from __future__ import annotations

import codecs
import secrets
import string
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from lakehouse_lib.arrow.values import whole
from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.quarantine import FaultyRecords
from lakehouse_lib.ingestion.sources.blocks import TextBlock, column_mismatches, refusal
from lakehouse_lib.ingestion.sources.casts import decode_texts, mask
from lakehouse_lib.ingestion.sources.source_format import SourceFormat

#: Bytes of text in a block; a record cannot be longer.
BLOCK_SIZE = 8 << 20

NOT_TEXT = "not valid {encoding} text"


def read_csv(file: LandedFile, source_format: SourceFormat, schema: pa.Schema) -> Iterator[TextBlock]:
    """The blocks of a file, in order.

    Raises:
        SourceRefusedError: the columns do not fit the schema, or the file cannot be read as CSV to its end.
    """
    try:
        yield from _read(file, source_format, schema)
    except (OSError, EOFError, UnicodeError, pa.ArrowInvalid) as error:
        raise SourceRefusedError(
            f"{file.name} cannot be read as {source_format.encoding} CSV: {_first_line(error)}",
            hint="Land the whole file again, in that encoding",
        ) from error


def _read(file: LandedFile, source_format: SourceFormat, schema: pa.Schema) -> Iterator[TextBlock]:
    invalid: list[tuple[int, int, str]] = []  # record number, fields, text; pyarrow reads ahead of the current block
    mark = _end_mark(source_format, schema)
    is_whole = not source_format.quote

    def note(row: Any) -> str:
        nonlocal is_whole
        if row.text.rstrip("\r\n") == mark:
            is_whole = True
        else:
            invalid.append((row.number, row.actual_columns, row.text))
        return "skip"

    compression = "gzip" if file.name.endswith(".gz") else None
    with (
        file.open() as source,
        pa.input_stream(source, compression=compression, buffer_size=1 << 20) as stream,
    ):
        if not source_format.is_utf8:
            stream = pa.transcoding_input_stream(stream, source_format.encoding, "utf-8")
        reader = csv.open_csv(
            pa.PythonFile(_Marked(stream, mark), "r") if source_format.quote else stream,
            read_options=csv.ReadOptions(
                use_threads=False,
                block_size=BLOCK_SIZE,
                column_names=None if source_format.header else schema.names,
            ),
            parse_options=csv.ParseOptions(
                delimiter=source_format.delimiter,
                quote_char=source_format.quote or False,
                double_quote=True,
                newlines_in_values=bool(source_format.quote),
                ignore_empty_lines=False,
                invalid_row_handler=note,
            ),
            convert_options=csv.ConvertOptions(
                check_utf8=False,
                # Binary, so that text that is not UTF-8 rejects its row and not the file.
                column_types={name: pa.binary() for name in schema.names},
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[source_format.null_text],
            ),
        )
        mismatches = column_mismatches(schema, reader.schema.names)
        if mismatches:
            raise refusal(file.name, mismatches)
        record = 2 if source_format.header else 1  # the number of the next record
        line = record + sum(name.count("\n") for name in reader.schema.names)
        for batch in reader:
            block, record, line = _block(batch, invalid, record, line, source_format, schema)
            yield block
        if invalid:
            block, record, _ = _block(reader.schema.empty_table(), invalid, record, line, source_format, schema)
            yield block
        if not is_whole:
            # pyarrow has read the rest of the file as the value of this field.
            raise pa.ArrowInvalid("a quoted field is never closed")


def _block(
    batch: Any,
    invalid: list[tuple[int, int, str]],
    record: int,
    line: int,
    source_format: SourceFormat,
    schema: pa.Schema,
) -> tuple[TextBlock, int, int]:
    """Number the lines of a batch's rows and of the invalid records before and between them."""
    rows = batch.num_rows
    columns = [whole(batch.column(schema_name)) for schema_name in schema.names]
    breaks = np.zeros(rows, np.int64)
    for column in columns:
        if pc.any(pc.match_substring(column, "\n")).as_py():
            breaks += pc.fill_null(pc.count_substring(column, "\n"), 0).to_numpy(zero_copy_only=False)
    # With g valid rows before it, an invalid record has the number record + g + (invalid records before it). Invalid
    # records within this batch are handled here, the others with later batches.
    taken = 0
    before: list[int] = []  # number of this batch's rows before each invalid record
    while taken < len(invalid) and (ahead := invalid[taken][0] - record - taken) <= rows:
        before.append(ahead)
        taken += 1
    batch_invalid, invalid[:] = invalid[:taken], invalid[taken:]

    faulty = FaultyRecords()
    extra = np.zeros(rows + 1, np.int64)  # lines of invalid records before row i
    row_starts = np.concatenate([[0], np.cumsum(breaks + 1)])
    passed = 0
    for (_, fields, text), ahead in zip(batch_invalid, before, strict=True):
        faulty.add(line + int(row_starts[ahead]) + passed, f"{fields} fields; expected {len(schema)}", text)
        lines = 1 + text.rstrip("\r\n").count("\n")
        passed += lines
        extra[ahead] += lines
    lines_of_rows = line + row_starts[:rows] + np.cumsum(extra)[:rows]

    texts, not_text = zip(*(decode_texts(column) for column in columns), strict=True)
    keep = np.zeros(rows, bool)  # a record without any value is a blank line
    for column in columns:
        keep |= mask(pc.is_valid(column))
    row_selection = slice(None) if keep.all() else np.flatnonzero(keep)
    encoding = codecs.lookup(source_format.encoding).name
    checks = [
        (name, NOT_TEXT.format(encoding=encoding), wrong[row_selection])
        for name, wrong in zip(schema.names, not_text, strict=True)
        if wrong.any()
    ]
    block = TextBlock(
        [text if isinstance(row_selection, slice) else text.take(pa.array(row_selection)) for text in texts],
        pa.array(lines_of_rows[row_selection]),
        checks,
        faulty,
    )
    return block, record + rows + taken, line + int(row_starts[rows]) + passed


def _end_mark(source_format: SourceFormat, schema: pa.Schema) -> str:
    """A random record whose number of fields differs from the schema's, so that pyarrow reports it as invalid."""
    letters = sorted(set(string.ascii_lowercase) - {source_format.delimiter, source_format.quote})
    mark = "".join(secrets.choice(letters) for _ in range(16))
    return mark + source_format.delimiter if len(schema) == 1 else mark


class _Marked:
    """A stream with the end mark as an additional last line; an empty stream, or a byte order mark alone, has none."""

    closed = False

    def __init__(self, stream: Any, mark: str) -> None:
        self._stream = stream
        self._mark = mark
        self._last = b""
        self._rest: bytes | None = None

    def read(self, size: int) -> bytes:
        # Fill the whole size: pyarrow makes a block of each read, and a record may span two blocks at most.
        pieces, room = [], size
        while room and (piece := self._piece(room)):
            pieces.append(piece)
            room -= len(piece)
        return b"".join(pieces)

    def _piece(self, most: int) -> bytes:
        if self._rest is None:
            data: bytes = self._stream.read(most)
            if self._last or data != codecs.BOM_UTF8:
                self._last = data[-1:] or self._last
            if data or not self._last:
                return data
            # A second line break would make a blank line, which may be a record.
            start = "" if self._last in (b"\n", b"\r") else "\n"
            self._rest = f"{start}{self._mark}\n".encode()
        data, self._rest = self._rest[:most], self._rest[most:]
        return data

    def close(self) -> None:
        self.closed = True


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".")
