"""Action lines of a commit, a log compaction or a JSON checkpoint, as Arrow columns and a few values.

What these lines say decides which rows a table has, so each field is held to the type that the protocol gives it
(PROTOCOL.md, section Actions). Unknown actions and fields are ignored, as the protocol wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.actions import (
    CHANGE_FILE_SCHEMA,
    FILE_SCHEMA,
    TOMBSTONE_SCHEMA,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
    excerpt,
    parse_line,
)
from lakehouse_lib.arrow_values import column, flags_of, literal, strings
from lakehouse_lib.errors import LogCorruptedError

#: No line is longer. Spark's JSON reader takes no text over 20,000,000 characters, which is twice that where every
#: character is escaped; and a line costs some twenty times its size while Python holds it.
MAX_LINE_BYTES = 64 * 2**20
#: Times are ms since the epoch; this is the end of the year 9999, where Spark's and Python's calendars end.
_MAX_TIME = 253_402_300_799_999

_SCHEMAS: Mapping[str, pa.Schema] = {"add": FILE_SCHEMA, "remove": TOMBSTONE_SCHEMA, "cdc": CHANGE_FILE_SCHEMA}
_REQUIRED: Mapping[str, frozenset[str]] = {
    "add": frozenset(("path", "partitionValues", "size", "modificationTime", "dataChange")),
    "remove": frozenset(("path", "dataChange")),
    "cdc": frozenset(("path", "partitionValues", "size")),
}
_REQUIRED_OF_VECTOR = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
_NOTHING, _ZERO = literal("", pa.string()), literal(0, pa.int64())
_CHUNK = 20_000  # lines that are Python objects at a time


@dataclass(frozen=True)
class ActionLines:
    """``adds`` is of FILE_SCHEMA, ``removes`` of TOMBSTONE_SCHEMA, ``changes`` of CHANGE_FILE_SCHEMA; ``info`` is the
    first commitInfo; ``sidecars`` are the bodies of sidecar actions."""

    adds: pa.Table
    removes: pa.Table
    changes: pa.Table
    metadata: tuple[Metadata, ...] = ()
    protocol: tuple[Protocol, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)
    sidecars: tuple[Mapping[str, Any], ...] = ()


class TornLineError(Exception):
    """A line that is no action; ``number`` counts from 1. The caller knows which file it is and says so."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(number, what)
        self.number = number
        self.what = what


def split_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file that comes in blocks; holds one block and one line.

    Raises:
        TornLineError: a line is longer than MAX_LINE_BYTES; what follows is not read.
    """
    number, rest = 1, b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for number, line in enumerate(lines, start=number):  # noqa: B007, B020 - goes on counting
            yield line
        number += bool(lines)
        if len(rest) > MAX_LINE_BYTES:
            raise TornLineError(number, f"is longer than {MAX_LINE_BYTES} bytes")
    yield rest


def read_lines(lines: Iterable[bytes]) -> ActionLines:
    """The actions of ``lines``.

    Raises:
        TornLineError: names the first line that is no action, and its offending value.
    """
    reader = _Reader()
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE_BYTES:
            raise TornLineError(number, f"is longer than {MAX_LINE_BYTES} bytes")
        if line.strip():
            reader.take(number, line)
    return reader.result()


def check_line(line: bytes) -> None:
    """Whether a line that is about to be written, of anything but files, could be read back.

    Raises:
        TornLineError: it could not.
    """
    _Reader().take(1, line)


def check_files(kind: str, files: pa.Table) -> None:
    """Whether files that are about to be written as ``kind`` actions could be read back.

    Args:
        files: of the schema that the kind has; null ``partitionValues`` are none.

    Raises:
        TornLineError: names the first that could not (1 is the first row), and its offending value.
    """
    for name in sorted(_REQUIRED[kind] - {"partitionValues"}):
        if files[name].null_count:
            at = int(flags_of(files[name].is_null()).argmax())
            raise TornLineError(at + 1, f"is a {kind} action without {name}")
    _check_values(kind, files, range(1, len(files) + 1))


class _Reader:
    def __init__(self) -> None:
        self._pending: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _SCHEMAS}
        self._numbers: dict[str, list[int]] = {kind: [] for kind in _SCHEMAS}
        self._tables: dict[str, list[pa.Table]] = {kind: [] for kind in _SCHEMAS}
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
            raise TornLineError(number, f"is torn or no action ({error})") from error
        try:
            self._take(number, name, body)
        except LogCorruptedError as error:
            raise TornLineError(number, f"is {error.message}") from error

    def _take(self, number: int, name: str, body: Mapping[str, Any]) -> None:
        match name:
            case "add" | "remove" | "cdc":
                self._pending[name].append(body)
                self._numbers[name].append(number)
                if len(self._pending[name]) >= _CHUNK:
                    self._flush(name)
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

    def _flush(self, kind: str) -> None:
        bodies, numbers = self._pending[kind], self._numbers[kind]
        if bodies:
            self._tables[kind].append(_table(kind, bodies, numbers))
            self._pending[kind], self._numbers[kind] = [], []

    def result(self) -> ActionLines:
        for kind in _SCHEMAS:
            self._flush(kind)
        adds, removes, changes = (
            pa.concat_tables(self._tables[kind]) if self._tables[kind] else pa.Table.from_batches([], schema)
            for kind, schema in _SCHEMAS.items()
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
    schema, required = _SCHEMAS[kind], _REQUIRED[kind]
    columns = []
    for one in schema:
        values = [body.get(one.name) for body in bodies]
        wrong = _wrong(values, one.type, one.name in required)
        if wrong is None:
            try:
                columns.append(column(values, one.type))
                continue
            except (pa.ArrowException, OverflowError, ValueError):
                # Out of range, or text that is no UTF-8: rare, so only now is it asked which one.
                wrong = next(index for index, value in enumerate(values) if not _fits(value, one.type))
        value = values[wrong]
        what = f"without {one.name}" if value is None else f"whose {one.name} is {excerpt(value)}"
        raise TornLineError(numbers[wrong], f"is a {kind} action {what}")
    table = pa.Table.from_arrays(columns, schema=schema)
    _check_values(kind, table, numbers)
    return table


def _check_values(kind: str, table: pa.Table, numbers: Sequence[int]) -> None:
    """What no type says: a path is not empty, a size not negative, a deletion vector complete."""
    checks = [("path", pc.equal(table["path"], _NOTHING)), ("size", pc.less(table["size"], _ZERO))]
    if "deletionVector" in table.column_names and table["deletionVector"].null_count < len(table):
        vectors = table["deletionVector"].combine_chunks()
        fields = {name: pc.struct_field(vectors, name) for name in vectors.type.names}
        broken = pc.invert(pc.is_in(fields["storageType"], value_set=strings(["u", "i", "p"])))
        for name in _REQUIRED_OF_VECTOR:
            broken = pc.or_(broken, pc.is_null(fields[name]))
        for name in ("offset", "sizeInBytes", "cardinality"):
            broken = pc.or_(broken, pc.fill_null(pc.less(fields[name], _ZERO), literal(False, pa.bool_())))
        checks.append(("deletionVector", pc.and_(pc.is_valid(vectors), broken)))
    for name, wrong in checks:
        if (found := flags_of(wrong)).any():
            at = int(found.argmax())
            value = excerpt(table[name][at].as_py())
            raise TornLineError(numbers[at], f"is a {kind} action whose {name} is {value}")


def _wrong(values: Sequence[Any], kind: pa.DataType, required: bool) -> int | None:
    """The first value that JSON has as another type than ``kind``, or that is missing."""
    allowed = _json_types(kind) | (set() if required else {type(None)})
    if set(map(type, values)) <= allowed:
        if not pa.types.is_nested(kind):
            return None
        return next((index for index, value in enumerate(values) if not _holds(value, kind)), None)
    return next(index for index, value in enumerate(values) if type(value) not in allowed)


def _holds(value: Any, kind: pa.DataType) -> bool:
    """Whether what is in an object has the right types, too."""
    if value is None:
        return True
    if pa.types.is_map(kind):
        return all(item is None or type(item) is str for item in value.values())
    items = ((value.get(child.name), child.type) for child in kind)
    return all(item is None or type(item) in _json_types(of) for item, of in items)


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
