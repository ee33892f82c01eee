"""A parser for the action lines of a commit, a log compaction or a JSON checkpoint. File actions become Arrow tables,
all other actions become objects.

A wrong value could change which rows a table has, so the parser checks that each field has the type that the protocol
requires (PROTOCOL.md, section Actions). Unknown actions and fields are ignored, as the protocol requires. Large input
is read in pieces. ``action_columns`` parses the file actions of a piece with Arrow, if the result is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakehouse_lib.arrow.values import column
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log.checkpoint.parallel import map_in_order
from lakehouse_lib.log.commits.action_columns import FileParser, file_lines
from lakehouse_lib.log.commits.file_actions import ACTION_TEXTS, REQUIRED, SCHEMAS, TornLineError, check_values
from lakehouse_lib.protocol.actions import DomainMetadata, Metadata, Protocol, Transaction, parse_line

#: The longest line. Spark's JSON reader accepts 20,000,000 characters, which take twice as many bytes if each character
#: is escaped. While a line is parsed it takes about twenty times its size in memory.
MAX_LINE_BYTES = 64 * 2**20
#: Times are ms since the epoch; this is the end of the year 9999, the last that Spark and Python support.
_MAX_TIME = 253_402_300_799_999

#: Bytes of lines that are parsed at a time: enough for Arrow to be fast, and few enough that their Python objects fit
#: in memory.
_PIECE_BYTES = 2 * 2**20
#: Pieces of at least this size are first given to the columnar parser, which is not faster for smaller pieces.
_COLUMNAR_BYTES = 32 * 2**10


@dataclass(frozen=True)
class ActionLines:
    """The actions of a file: ``adds`` (FILE_SCHEMA), ``removes`` (TOMBSTONE_SCHEMA), ``changes`` (CHANGE_FILE_SCHEMA),
    the first commitInfo as ``info``, the bodies of sidecar actions as ``sidecars``, and the other actions."""

    adds: pa.Table
    removes: pa.Table
    changes: pa.Table
    metadata: tuple[Metadata, ...] = ()
    protocol: tuple[Protocol, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    sidecars: tuple[Mapping[str, Any], ...] = ()


def read_actions(blocks: Iterable[bytes]) -> ActionLines:
    """The actions of a file that is read in blocks, which may end inside a line.

    Only one block and some pieces of it are in memory. A line that is too long is not read to its end.

    Raises:
        TornLineError: a line is not a valid action; the error has the number of the line and the invalid value.
    """
    parser = FileParser()
    parts: list[ActionLines] = []
    lines_before = 0

    def read(piece: bytes) -> tuple[int, ActionLines]:
        return piece.count(b"\n") + 1, _read_piece(piece, parser)

    try:
        for count, actions in map_in_order(read, _pieces(blocks)):
            parts.append(actions)
            lines_before += count
    except TornLineError as error:
        raise TornLineError(lines_before + error.number, error.what) from error
    return _join(parts)


def _pieces(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines, without the last line end; reading stops at a line that is longer than MAX_LINE_BYTES."""
    tail = b""  # the start of a line that continues in the next block
    for block in blocks:
        start, last = 0, block.rfind(b"\n")
        while start <= last:
            end = block.find(b"\n", min(start + _PIECE_BYTES, last))
            yield b"".join((tail, memoryview(block)[start:end]))
            tail, start = b"", end + 1
        tail += block[start:]
        if len(tail) > MAX_LINE_BYTES:
            break
    if tail:
        yield tail


def _read_piece(piece: bytes, parser: FileParser) -> ActionLines:
    if _COLUMNAR_BYTES <= len(piece) <= MAX_LINE_BYTES:
        try:
            actions = _read_columns(piece, parser)
        except TornLineError:
            actions = None  # parse the lines in order, which finds the first one that is not valid
        if actions is not None:
            return actions
    actions = _read_lines(piece)
    if len(piece) >= _COLUMNAR_BYTES:  # a smaller piece is a small commit, or the end of a block
        parser.add_fields({"add": actions.adds, "remove": actions.removes, "cdc": actions.changes})
    return actions


def _read_columns(piece: bytes, parser: FileParser) -> ActionLines | None:
    start, end = file_lines(piece)
    if end - start < _COLUMNAR_BYTES:
        return None
    files = parser.parse(piece[start:end])
    if files is None:
        return None
    file_actions = ActionLines(files["add"], files["remove"], files["cdc"])
    return _join([_read_lines(piece[:start]), file_actions, _read_lines(piece[end:])])


def _join(parts: Sequence[ActionLines]) -> ActionLines:
    if len(parts) == 1:
        return parts[0]
    return ActionLines(
        _concat("add", [part.adds for part in parts]),
        _concat("remove", [part.removes for part in parts]),
        _concat("cdc", [part.changes for part in parts]),
        tuple(metadata for part in parts for metadata in part.metadata),
        tuple(protocol for part in parts for protocol in part.protocol),
        tuple(transaction for part in parts for transaction in part.transactions),
        tuple(domain for part in parts for domain in part.domains),
        next((part.info for part in parts if part.info), {}),
        tuple(sidecar for part in parts for sidecar in part.sidecars),
    )


def _concat(kind: str, tables: Sequence[pa.Table]) -> pa.Table:
    parts = [table for table in tables if len(table)]
    return pa.concat_tables(parts) if parts else _empty(kind)


def _empty(kind: str) -> pa.Table:
    return pa.Table.from_batches([], SCHEMAS[kind])


def _read_lines(piece: bytes) -> ActionLines:
    """The actions of whole lines, parsed one line at a time."""
    reader = _Reader()
    for number, line in enumerate(piece.split(b"\n"), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise TornLineError(number, f"is longer than {MAX_LINE_BYTES} bytes")
        if line.strip():
            reader.take(number, line)
    return reader.result()


def check_line(line: bytes) -> None:
    """Check that readers can parse a line that is about to be written. It must not be an add, remove or cdc action.

    Raises:
        TornLineError: readers could not parse the line.
    """
    _Reader().take(1, line)


class _Reader:
    def __init__(self) -> None:
        self._files: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in SCHEMAS}
        self._numbers: dict[str, list[int]] = {kind: [] for kind in SCHEMAS}
        self._metadata: list[Metadata] = []
        self._protocol: list[Protocol] = []
        self._transactions: list[Transaction] = []
        self._domains: list[DomainMetadata] = []
        self._sidecars: list[Mapping[str, Any]] = []
        self._info: Mapping[str, Any] = {}

    def take(self, number: int, line: bytes) -> None:
        try:
            name, body = parse_line(line)
        except ValueError as error:
            raise TornLineError(number, f"is incomplete or not an action ({error})") from error
        try:
            self._take(number, name, body)
        except LogCorruptedError as error:
            raise TornLineError(number, f"is {error.message}") from error

    def _take(self, number: int, name: str, body: Mapping[str, Any]) -> None:
        match name:
            case "add" | "remove" | "cdc":
                self._files[name].append(body)
                self._numbers[name].append(number)
            case "metaData":
                self._metadata.append(Metadata.from_json(body))
            case "protocol":
                self._protocol.append(Protocol.from_json(body))
            case "txn":
                self._transactions.append(Transaction.from_json(body))
            case "domainMetadata":
                self._domains.append(DomainMetadata.from_json(body))
            case "sidecar":
                self._sidecars.append(body)
            case "commitInfo":
                _check_info(body)
                self._info = self._info or body
            case _:
                pass

    def result(self) -> ActionLines:
        adds, removes, changes = (
            _table(kind, self._files[kind], self._numbers[kind]) if self._files[kind] else _empty(kind)
            for kind in SCHEMAS
        )
        return ActionLines(
            adds,
            removes,
            changes,
            tuple(self._metadata),
            tuple(self._protocol),
            tuple(self._transactions),
            tuple(self._domains),
            self._info,
            tuple(self._sidecars),
        )


def _check_info(body: Mapping[str, Any]) -> None:
    moment = body.get("inCommitTimestamp")
    if moment is not None and not (type(moment) is int and 0 <= moment <= _MAX_TIME):
        raise LogCorruptedError(f"a commitInfo whose inCommitTimestamp is {excerpt(moment)}")


def _table(kind: str, bodies: Sequence[Mapping[str, Any]], numbers: Sequence[int]) -> pa.Table:
    schema, required = SCHEMAS[kind], REQUIRED[kind]
    columns = []
    for column_field in schema:
        values = [body.get(column_field.name) for body in bodies]
        wrong = _first_wrong(values, column_field.type, column_field.name in required)
        if wrong is None:
            try:
                columns.append(column(values, column_field.type))
                continue
            except (pa.ArrowException, OverflowError, ValueError):
                # Out of range, or text that is not valid UTF-8. This is rare, so the row is looked for only now.
                wrong = next(index for index, value in enumerate(values) if not _fits(value, column_field.type))
        value = values[wrong]
        what = f"without {column_field.name}" if value is None else f"whose {column_field.name} is {excerpt(value)}"
        raise TornLineError(numbers[wrong], f"is {ACTION_TEXTS[kind]} {what}")
    table = pa.Table.from_arrays(columns, schema=schema)
    check_values(kind, table, numbers)
    return table


def _first_wrong(values: Sequence[Any], kind: pa.DataType, required: bool) -> int | None:
    """The index of the first value that is missing or has another JSON type than ``kind``; None if all are right."""
    allowed_types = _json_types(kind) | (set() if required else {type(None)})
    if set(map(type, values)) <= allowed_types:
        if not pa.types.is_nested(kind):
            return None
        return next((index for index, value in enumerate(values) if not _holds(value, kind)), None)
    return next(index for index, value in enumerate(values) if type(value) not in allowed_types)


def _holds(value: Any, kind: pa.DataType) -> bool:
    """Whether the members of an object have the right types."""
    if value is None:
        return True
    if pa.types.is_map(kind):
        return all(item is None or type(item) is str for item in value.values())
    items = ((value.get(child.name), child.type) for child in kind)
    return all(item is None or type(item) in _json_types(child_kind) for item, child_kind in items)


def _json_types(kind: pa.DataType) -> set[type]:
    if pa.types.is_nested(kind):
        return {dict}
    if pa.types.is_boolean(kind):
        return {bool}
    return {int} if pa.types.is_integer(kind) else {str}


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        column([value], kind)
    except (pa.ArrowException, OverflowError, ValueError):
        return False
    return True
