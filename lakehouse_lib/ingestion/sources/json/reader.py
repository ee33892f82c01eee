"""Read JSON lines (an object a line) or a JSON array (an object an element) as blocks of columns.

Any plain value is cast to the column's type, so ``"12"`` is valid as a long and ``12`` as a string. A missing key is
NULL. If the first object has a key that is not in the schema, the file is refused, because its columns do not fit. If a
later object has such a key, its row is rejected. A file with many such keys is refused. A line with half a surrogate
pair or with a duplicate key is a faulty record. The values of nested columns are objects and arrays (``values``).
"""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import int64s, strings
from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.quarantine import FaultyRecords
from lakehouse_lib.ingestion.sources.blocks import NestedColumn, RawBlock, TextBlock, TypedBlock, refusal
from lakehouse_lib.ingestion.sources.compression import open_content
from lakehouse_lib.ingestion.sources.json.array import ArrayBlock, array_blocks
from lakehouse_lib.ingestion.sources.json.typed_columns import typed_columns
from lakehouse_lib.ingestion.sources.json.values import (
    MANY_UNKNOWN,
    MOST_NAMES,
    NestedTexts,
    Number,
    is_nested,
    json_text,
    nested_column,
    plain_text,
    without_misfits,
)
from lakehouse_lib.ingestion.sources.source_format import ADD_COLUMNS, RESCUE, SourceFormat
from lakehouse_lib.json_text import excerpt

#: Bytes of lines in a block.
BLOCK_SIZE = 4 << 20
#: A file with a longer line is refused. Python's values of an object take up to twenty times the bytes of its text.
LONGEST_LINE = 16 << 20
#: A file with more keys that are not in the schema in a block is refused: each such key needs a mask of all rows.
_MOST_UNKNOWN = 100
_UTF8 = "utf-8"
#: Parses lines of the named file.
_Parser = Callable[[str, SourceFormat, pa.Schema, bytes], TextBlock | TypedBlock]


def read_json(
    source_file: LandedFile, source_format: SourceFormat, schema: pa.Schema, *, as_text: bool = False
) -> Iterator[Callable[[], TextBlock | TypedBlock]]:
    """Functions that parse the blocks of a file, in order. They can run in other threads.

    Args:
        as_text: return a ``TextBlock`` for each block, and so the text of each value.

    Raises:
        SourceRefusedError: the first object has a key that is not in the schema, or the file cannot be read to its end.
            The functions raise it if the objects have many such keys.
    """
    parser = _parsed_exactly if as_text else _parsed
    if source_format.kind == "json_array":
        yield from _read_array(source_file, source_format, schema, parser)
        return
    checked = source_format.evolution == RESCUE or not source_file.has_start
    for lines in line_blocks(source_file):
        checked = checked or _check_first(lines, source_file, source_format, schema.names)
        parse = partial(parser, source_file.name, source_format, schema)
        yield RawBlock(lines, 0, (), partial(parse, lines), parse)


def line_blocks(source_file: LandedFile) -> Iterator[bytes]:
    """The lines of a file in blocks; raises SourceRefusedError if it cannot be read to its end."""
    try:
        with open_content(source_file) as stored, io.BufferedReader(cast(Any, stored)) as content:
            if source_file.has_start and content.peek(3).startswith(codecs.BOM_UTF8):
                content.read(len(codecs.BOM_UTF8))
            while lines := _lines(content, source_file):
                yield lines
    except OSError as error:
        raise SourceRefusedError(
            f"{source_file.name} cannot be read as JSON lines: {error}", hint="Land a complete file in its place"
        ) from error


def _read_array(
    source_file: LandedFile, source_format: SourceFormat, schema: pa.Schema, parser: _Parser
) -> Iterator[Callable[[], TextBlock | TypedBlock]]:
    checked = source_format.evolution == RESCUE
    utf8 = replace(source_format, encoding=_UTF8)
    for block in element_blocks(source_file, source_format):
        checked = checked or _check_first(block.lines, source_file, utf8, schema.names)
        yield partial(_parsed_elements, block, partial(parser, source_file.name, utf8, schema))


def element_blocks(source_file: LandedFile, source_format: SourceFormat) -> Iterator[ArrayBlock]:
    """The elements of a file's array in blocks of UTF-8; raises SourceRefusedError if it is not a whole array."""
    try:
        with open_content(source_file) as stored:
            content = stored
            if not source_format.is_utf8:
                content = pa.transcoding_input_stream(stored, source_format.encoding, _UTF8)
            with io.BufferedReader(cast(Any, content)) as text:
                if text.peek(3).startswith(codecs.BOM_UTF8):
                    text.read(len(codecs.BOM_UTF8))
                yield from array_blocks(text.read)
    except (OSError, UnicodeError, pa.ArrowInvalid) as error:
        raise SourceRefusedError(
            f"{source_file.name} cannot be read as a JSON array: {str(error).partition(chr(10))[0]}",
            hint="Land a complete file in its place",
        ) from error


def _parsed_elements(block: ArrayBlock, parse: Callable[[bytes], TextBlock | TypedBlock]) -> TextBlock | TypedBlock:
    """A block with the lines of the elements instead of their numbers."""
    parsed = parse(block.lines)
    starts = np.asarray(block.starts)
    if isinstance(parsed, TextBlock):
        return _moved(parsed, starts, block.line_count)
    assert parsed.exact is not None
    exact, lines = parsed.exact, parsed.lines
    return replace(
        parsed,
        lines=lambda: int64s(starts).take(lines()),
        line_count=block.line_count,
        exact=lambda rows: _moved(exact(rows), starts, block.line_count),
        rest=None if parsed.rest is None else _moved(parsed.rest, starts, block.line_count),
    )


def _moved(block: TextBlock, starts: NDArray[np.int64], line_count: int) -> TextBlock:
    """A block whose line ``n`` is line ``starts[n]`` of another text, which has ``line_count`` lines."""
    lines, faulty = block.lines, block.faulty
    moved = replace(faulty, lines=starts[faulty.lines].tolist())
    return replace(block, lines=lambda: int64s(starts).take(lines()), faulty=moved, line_count=line_count)


def misfits_of_json(
    source_file: LandedFile, source_format: SourceFormat, schema: pa.Schema
) -> Iterator[list[pa.Array]]:
    """In each block, arrays of the members of its objects that ``RESCUE`` would put into ``_rescued``.

    Raises:
        SourceRefusedError: the file cannot be read to its end.
    """
    for parse in read_json(source_file, replace(source_format, evolution=RESCUE), schema):
        block = parse()
        texts = block if isinstance(block, TextBlock) else block.rest
        if texts is not None:
            yield [members.drop_null() for members in texts.rescued]


def object_keys(block: bytes, source_format: SourceFormat) -> dict[str, bool]:
    """The keys of the objects in some lines, in their order, and whether a value of the key is nested."""
    keys: dict[str, bool] = {}
    for raw in BytesIO(block):
        for name, value in (_object(raw, 0, source_format, FaultyRecords()) or {}).items():
            keys[name] = keys.get(name, False) or is_nested(value)
    return keys


def has_object(source_file: LandedFile, source_format: SourceFormat) -> bool:
    """Whether a file of JSON lines has an object; raises SourceRefusedError if it cannot be read."""
    for lines in line_blocks(source_file):
        if any(_object(raw, 0, source_format, FaultyRecords()) is not None for raw in BytesIO(lines)):
            return True
    return False


def _check_first(lines: bytes, source_file: LandedFile, source_format: SourceFormat, names: list[str]) -> bool:
    """Refuse a file whose first object has other keys; returns False if these lines have no object."""
    for raw in BytesIO(lines):
        value = _object(raw, 0, source_format, FaultyRecords())
        if value is not None:
            unknown = [name for name in value if name not in names]
            if unknown:
                raise refusal(source_file.name, [f"{name} is not a column of the schema" for name in unknown])
            return True
    return False


def _parsed(file: str, source_format: SourceFormat, schema: pa.Schema, lines: bytes) -> TextBlock | TypedBlock:
    if source_format.time_formats:  # pyarrow's types have no formats
        return _parsed_exactly(file, source_format, schema, lines)
    if not source_format.is_utf8 or not (lines.isascii() or codecs.lookup(source_format.encoding).name == _UTF8):
        return _parsed_exactly(file, source_format, schema, lines)
    text = lines.replace(b"\r\n", b"\n") if b"\r" in lines else lines
    typed = typed_columns(text, schema)
    if typed is None or not len(typed.lines):
        return _parsed_exactly(file, source_format, schema, lines)
    line_count = len(typed.lines) + len(typed.rest)

    def exact(numbers: NDArray[np.int64]) -> TextBlock:
        own = text.split(b"\n")
        chosen = b"".join(own[number] + b"\n" for number in numbers.tolist())
        return _moved(_parsed_exactly(file, source_format, schema, chosen), numbers, line_count)

    rest = exact(typed.rest) if len(typed.rest) else None
    return TypedBlock(
        typed.columns,
        partial(int64s, typed.lines),  # this holds the line numbers in memory, but not the columns
        (),
        (),
        FaultyRecords(),
        line_count,
        lambda rows: exact(typed.lines[rows]),
        rest,
    )


def _parsed_exactly(file: str, source_format: SourceFormat, schema: pa.Schema, lines: bytes) -> TextBlock:
    objects: list[dict[str, Any]] = []
    numbers: list[int] = []
    faulty = FaultyRecords()
    line = -1
    for line, raw in enumerate(BytesIO(lines)):
        value = _object(raw, line, source_format, faulty)
        if value is not None:
            objects.append(value)
            numbers.append(line)
    rescues = source_format.evolution == RESCUE
    if not rescues:
        _check_unknown(objects, file, schema.names)
    block = _block(objects, numbers, faulty, schema, line + 1, rescues=rescues)
    if source_format.evolution == ADD_COLUMNS:
        _check_members(block.nested, file)
    return block


def _lines(content: BinaryIO, source_file: LandedFile) -> bytes:
    """The next lines of a file, of about the size of a block; empty at its end."""
    data = content.read(BLOCK_SIZE)
    if len(data) < BLOCK_SIZE or data.endswith(b"\n"):
        return data
    data += content.readline(LONGEST_LINE)
    if len(data) - (data.rfind(b"\n", 0, -1) + 1) >= LONGEST_LINE:
        raise SourceRefusedError(
            f"{source_file.name} has a line of more than {LONGEST_LINE} bytes",
            hint="Write each JSON object on a line of its own",
        )
    return data


def _object(raw: bytes, line: int, source_format: SourceFormat, faulty: FaultyRecords) -> dict[str, Any] | None:
    if not raw.strip():
        return None
    try:
        text = raw.decode(source_format.encoding)
    except UnicodeError:
        faulty.add(line, f"not valid {source_format.encoding} text", raw.decode("utf-8", "replace").rstrip("\r\n"))
        return None
    try:
        value = _DECODER.decode(text)
    except _DuplicateKeyError as error:
        faulty.add(line, str(error), text.rstrip("\r\n"))
        return None
    except (ValueError, RecursionError):
        faulty.add(line, "not valid JSON", text.rstrip("\r\n"))
        return None
    if not isinstance(value, dict):
        faulty.add(line, "not a JSON object", text.rstrip("\r\n"))
        return None
    # In UTF-8, half a surrogate pair can only come from an escape, and few lines have escapes.
    if ("\\u" in text or not source_format.is_utf8) and not _is_text(value):
        faulty.add(line, "not valid text", text.rstrip("\r\n"))
        return None
    return value


def _is_text(value: Any) -> bool:
    """Whether every text and key in the value is valid UTF-8, at any depth; half a surrogate pair is not."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            pending += [*node.keys(), *node.values()]
        elif isinstance(node, list):
            pending += node
        elif isinstance(node, str):
            try:
                node.encode()
            except UnicodeEncodeError:
                return False
    return True


class _DuplicateKeyError(ValueError):
    """An object has a duplicate key, so the key's value is ambiguous."""


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _DuplicateKeyError("a key more than once")
    return value


# ``json.loads`` with options would make a decoder for each line, which takes longer than the check of the keys.
_DECODER = json.JSONDecoder(parse_float=Number, object_pairs_hook=_object_of)


def _block(
    objects: list[dict[str, Any]],
    numbers: list[int],
    faulty: FaultyRecords,
    schema: pa.Schema,
    line_count: int,
    *,
    rescues: bool,
) -> TextBlock:
    nested_names = {field.name for field in schema if pa.types.is_nested(field.type)}
    plain_names = {name for name in schema.names if name not in nested_names}
    checks, rescued = [], []
    if rescues:
        rescued.append(strings([_take_misfits(value, plain_names, nested_names) for value in objects]))
    else:
        checks = _misfits(objects, schema.names, nested_names)
    texts: list[Any] = []
    nested = {}
    for field in schema:
        values = [value.get(field.name) for value in objects]
        if field.name not in nested_names:
            texts.append(strings([plain_text(value) for value in values]))
            continue
        texts.append(NestedTexts(values))
        nested[field.name] = nested_column(values, field)
        if rescues and field.nullable and nested[field.name].checks:
            nested[field.name], members = without_misfits(nested[field.name], field.name, values)
            rescued.append(members)
    return TextBlock(texts, lambda: int64s(numbers), checks, faulty, line_count, rescued, nested)


def _check_unknown(objects: list[dict[str, Any]], file: str, names: list[str]) -> None:
    """Refuse a file with many keys that are not in the schema."""
    column_names, unknown = set(names), set[str]()
    for value in objects:
        if not column_names.issuperset(value):
            unknown |= value.keys() - column_names
            if len(unknown) > _MOST_UNKNOWN:
                raise SourceRefusedError(
                    f"{file} has more than {_MOST_UNKNOWN} keys that are not columns of the schema, such as "
                    f"{excerpt(min(unknown))}",
                    hint="Land objects with the columns of the schema, or give the evolution rescue",
                )


def _check_members(columns: Mapping[str, NestedColumn], file: str) -> None:
    """Refuse a file with objects that have many members that are not in the schema: their keys may be values."""
    for column in columns.values():
        for path, reason, _ in column.checks:
            if reason == MANY_UNKNOWN:
                raise SourceRefusedError(
                    f"{file} has more than {MOST_NAMES} members of {path} that are not in the schema",
                    hint="If the keys of these objects are values, such as ids, declare a map in the schema",
                )


def _misfits(objects: list[dict[str, Any]], names: list[str], nested_names: set[str]) -> list[tuple[str, str, Any]]:
    """The checks of keys that are not in the schema, and of nested values of plain columns."""
    column_names = set(names)
    unknown = sorted({name for value in objects if not column_names.issuperset(value) for name in value} - column_names)
    checks = [
        (name, "not a column of the schema", np.fromiter((name in value for value in objects), bool, len(objects)))
        for name in unknown
    ]
    for name in names:
        if name in nested_names:
            continue
        nested = np.fromiter((is_nested(value.get(name)) for value in objects), bool, len(objects))
        if nested.any():
            checks.append((name, "not a plain value", nested))
    return checks


def _take_misfits(value: dict[str, Any], plain_names: set[str], nested_names: set[str]) -> str | None:
    """Remove other keys, and nested values of plain columns, from an object; returns the members of a JSON object."""
    misfits = [
        name
        for name, member in value.items()
        if name not in nested_names and (name not in plain_names or is_nested(member))
    ]
    return ",".join(f"{json_text(name)}:{json_text(value.pop(name))}" for name in misfits) or None
