"""Parsing of a large commit's file actions with Arrow, into columns, without a Python object for each line.

Arrow's JSON reader is less strict than readers must be, and it does not support maps. So a piece of a commit is parsed
here only if the result is certainly the same as that of ``action_lines``: every line is one object with one file
action, every field is known and has its type, no key occurs twice. Otherwise ``action_lines`` parses the piece, and
raises the errors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import as_array, bools, flags_of, int64s, literal, null_scalar, strings
from lakehouse_lib.log.commits.file_actions import REQUIRED, SCHEMAS, TornLineError, check_values
from lakehouse_lib.protocol.actions import STRING_MAP, parse_line

#: The fields of each kind of action, and the map keys of each field (none for a field that is not a map).
_Fields = Mapping[str, Mapping[str, frozenset[str]]]

_STARTS = tuple(f'{{"{kind}":'.encode() for kind in SCHEMAS)
#: The type of each field. The ``dataChange`` of a cdc action is always false, so it has a type here but is not read.
_TYPES = {(kind, field.name): field.type for kind, schema in SCHEMAS.items() for field in schema} | {
    ("cdc", "dataChange"): pa.bool_()
}
#: Every key of a line except map keys.
_NAMES = frozenset(SCHEMAS) | {
    name
    for (_, field), kind in _TYPES.items()
    for name in (field, *(child.name for child in (kind if pa.types.is_struct(kind) else ())))
}
_SAMPLES = 8
_MOST_KEYS = 64  # of a map field
#: A map key that has only one spelling, apart from ``\u`` escapes, and that does not look like JSON outside of strings.
_PLAIN_KEY = re.compile(r'[^,:}\] "\\/\x00-\x1f][^"\\/\x00-\x1f]*')
#: Text that could end the list into which ``_read_json`` puts the lines.
_LIST_END = re.compile(rb"\][ \t\r\n]*\}")
#: This text replaces a null in a map, because Arrow's JSON reader gives null for a missing key, too.
_NULL_JSON, _NULL_TEXT = b'"\\u0000null"', "\0null"


def file_lines(piece: bytes) -> tuple[int, int]:
    """The offsets in a piece of a commit at which its first file action starts and its last file action ends.

    Writers put the other actions at the start or the end of a commit.
    """
    start, end = 0, len(piece)
    while start < end and not piece.startswith(_STARTS, start):
        start = (piece.find(b"\n", start, end) + 1) or end
    while start < end and not piece.startswith(_STARTS, last := max(piece.rfind(b"\n", start, end) + 1, start)):
        end = max(last - 1, start)
    return start, end


class FileParser:
    """A parser of the file actions of one commit, piece by piece; threads may share it.

    Arrow has to know the fields and map keys in advance. They are taken from a sample of lines of each piece, and are
    used for later pieces, too.
    """

    def __init__(self) -> None:
        self._fields: _Fields = {}

    def parse(self, lines: bytes) -> Mapping[str, pa.Table] | None:
        """The file actions of whole lines, as a table of ``SCHEMAS`` for each kind.

        None if Arrow's result may be wrong; then ``action_lines`` has to parse them.
        """
        lines = lines.rstrip(b" \t\r\n")
        if not _are_objects(lines) or not _is_utf8(lines):
            return None
        try:
            self._read_sample(lines)
            return _parse(lines, self._fields)
        except (_DoubtError, TornLineError):
            return None

    def add_fields(self, files: Mapping[str, pa.Table]) -> None:
        """Add the fields and map keys of actions that ``action_lines`` parsed. Some of them may be in no sample."""
        for kind, table in files.items():
            for field in table.schema:
                if table[field.name].null_count < len(table):
                    maps = table[field.name].chunks if field.type == STRING_MAP else ()
                    self._note(kind, field.name, {key for chunk in maps for key in chunk.keys.unique().to_pylist()})

    def _read_sample(self, lines: bytes) -> None:
        spots = (number * len(lines) // (_SAMPLES - 1) for number in range(_SAMPLES))
        for start in {lines.rfind(b"\n", 0, spot) + 1 for spot in spots}:
            end = lines.find(b"\n", start)
            try:
                kind, body = parse_line(lines[start : end if end >= 0 else None])
            except ValueError:
                raise _DoubtError from None
            for name, value in body.items() if kind in SCHEMAS else ():
                if (kind, name) in _TYPES:
                    self._note(kind, name, value if isinstance(value, dict) else ())

    def _note(self, kind: str, name: str, keys: Collection[str]) -> None:
        """Add keys of a field. If two threads do this at once, keys may be lost; a later piece adds them again."""
        fields = self._fields.get(kind, {})
        if name not in fields or not fields[name].issuperset(keys):
            earlier = fields.get(name, frozenset())
            self._fields = {**self._fields, kind: {**fields, name: earlier.union(keys)}}


class _DoubtError(Exception):
    """The result may be wrong, so ``action_lines`` has to parse the lines."""


def _are_objects(lines: bytes) -> bool:
    """Whether each line starts and ends as an object, so that no object continues on the next line."""
    if not lines.startswith(b"{") or not lines.endswith(b"}"):
        return False
    characters = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    return bool((characters[ends - 1] == ord("}")).all() and (characters[ends + 1] == ord("{")).all())


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _parse(lines: bytes, field_keys: _Fields) -> Mapping[str, pa.Table]:
    """The files of lines that are objects.

    Raises:
        _DoubtError, TornLineError: ``action_lines`` has to parse the lines, and decides whether they are valid.
    """
    schema = _json_schema(field_keys)
    files = _read_json(lines, schema)
    null_keys = {key for rows in files.values() for key in _null_keys(rows)}
    if null_keys:
        with_texts = _with_texts_for_nulls(lines, null_keys)
        if with_texts is not None:
            files = _read_json(with_texts, schema)
    return {kind: _table(kind, files.get(kind), has_texts=bool(null_keys)) for kind in SCHEMAS}


def _json_schema(field_keys: _Fields) -> pa.Schema:
    """The Arrow schema of the known fields, with maps as structs; an unused field would cost a null in each row."""

    def column(kind: str, name: str, keys: Collection[str]) -> pa.Field:
        if _TYPES[kind, name] != STRING_MAP:
            return pa.field(name, _TYPES[kind, name])
        if len(keys) > _MOST_KEYS or not all(map(_PLAIN_KEY.fullmatch, keys)):
            raise _DoubtError
        return pa.field(name, pa.struct([(key, pa.string()) for key in sorted(keys)]))

    kinds = [
        pa.field(kind, pa.struct([column(kind, name, keys) for name, keys in fields.items()]))
        for kind, fields in field_keys.items()
    ]
    return pa.schema([("lines", pa.list_(pa.struct(kinds)))])


def _read_json(lines: bytes, schema: pa.Schema) -> Mapping[str, pa.StructArray]:
    """The actions of each kind, in the order of the lines.

    Arrow crashes if the input between two objects is not an object. So the lines become the items of one list, in which
    such input is a syntax error. Only a line that ends the list could avoid the error, and such a line is refused.
    """
    if b"]" in lines and _LIST_END.search(lines):
        raise _DoubtError
    items = lines.replace(b"\n", b",\t")  # like a line end, a tab is not allowed inside a string
    text = b"".join((b'{"lines":[', items, b"]}"))
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )
    except (pa.ArrowException, OverflowError):
        raise _DoubtError from None
    actions = as_array(table["lines"]).flatten()
    if len(table) != 1 or len(actions) != len(items) - len(lines) + 1:
        raise _DoubtError
    of_kind = {name: flags_of(actions.field(name).is_valid()) for name in actions.type.names}
    if (np.sum(list(of_kind.values()), axis=0) != 1).any():
        raise _DoubtError
    return {kind: _select(actions.field(kind), flags) for kind, flags in of_kind.items()}


def _select(rows: pa.StructArray, flags: NDArray[np.bool_]) -> pa.StructArray:
    return rows if flags.all() else rows.filter(bools(flags))


def _null_keys(rows: pa.StructArray) -> set[str]:
    """The map keys that are null or missing in some of the rows."""
    names = [name for name in ("partitionValues", "tags") if name in rows.type.names]
    structs = (pc.struct_field(rows, name) for name in names)
    maps = [values.filter(values.is_valid()) for values in structs]
    # By index: Arrow would take a name that begins with a dot for the path of a nested field.
    return {
        key
        for rows in maps
        for position, key in enumerate(rows.type.names)
        if pc.struct_field(rows, [position]).null_count
    }


def _with_texts_for_nulls(lines: bytes, keys: Collection[str]) -> bytes | None:
    """The lines with ``_NULL_JSON`` for the nulls of these keys. Each remaining null is then a missing key.

    None if the lines have no null of these keys.

    Raises:
        _DoubtError: a null has a space before it, its key may be spelled with escapes, or another field has that name.
    """
    if b"\\u" in lines:
        raise _DoubtError
    new_lines = lines
    for key in keys:
        # A quote inside a string has a backslash before it, so this is a key of an object.
        quoted = b'"' + key.encode() + b'"'
        if any(quoted + colon + space in lines for colon in (b"", b":") for space in (b" ", b"\t", b"\r")):
            raise _DoubtError
        if quoted + b":null" in lines:
            if key in _NAMES:
                raise _DoubtError
            new_lines = new_lines.replace(quoted + b":null", quoted + b":" + _NULL_JSON)
    return None if new_lines is lines else new_lines


def _table(kind: str, rows: pa.StructArray | None, *, has_texts: bool) -> pa.Table:
    schema = SCHEMAS[kind]
    if rows is None or not len(rows):
        return pa.Table.from_batches([], schema)
    columns = []
    for field in schema:
        if field.name not in rows.type.names:
            values = pa.nulls(len(rows), field.type)
        elif field.type == STRING_MAP:
            values = _maps(pc.struct_field(rows, field.name), has_texts)
        else:
            values = pc.struct_field(rows, field.name)
        if field.name in REQUIRED[kind] and values.null_count:
            raise _DoubtError
        columns.append(values)
    table = pa.Table.from_arrays(columns, schema=schema)
    check_values(kind, table, range(len(table)))
    return table


def _maps(values: pa.StructArray, has_texts: bool) -> pa.Array:
    """Structs of strings as maps, without the keys that a row does not have."""
    names = values.type.names
    valid = flags_of(values.is_valid())
    children = [pc.struct_field(values, [position]) for position in range(len(names))]
    present = np.zeros((len(values), len(names)), np.bool_)
    for position, child in enumerate(children):
        present[:, position] = flags_of(child.is_valid())
    rows, columns = np.nonzero(present)
    items = pa.concat_arrays(children).take(int64s(columns * len(values) + rows)) if names else strings([])
    if has_texts:
        items = pc.if_else(pc.equal(items, literal(_NULL_TEXT, pa.string())), null_scalar(pa.string()), items)
    fields = [STRING_MAP.key_field, STRING_MAP.item_field]
    entries = pa.StructArray.from_arrays([strings(names).take(int64s(columns)), items], fields=fields)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(present.sum(axis=1), out=offsets[1:])
    validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(STRING_MAP, len(values), [validity, pa.py_buffer(offsets)], children=[entries])
