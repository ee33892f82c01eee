"""One way to corrupt a table, chosen by a number: the same number corrupts the same table in the same way."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

#: The table's files by path below its folder; None for a deleted file.
Files = Mapping[str, bytes]
Changed = dict[str, bytes | None]

_TEXTS = (
    "", " ", "a", "null", "\u0000", "\ud800", "\u0661", "\U0001f600", "é", "e\u0301", "..", "../x", "%2e%2e/x", "%",
    "%zz", "/etc/passwd", "file:///etc/passwd", "s3://bucket/key", "a/b", "\\", "'", '"', "true", "1e400", "NaN", "-0",
    "9" * 400, "x" * 5000, "2020-13-45", "__HIVE_DEFAULT_PARTITION__", "struct", "long", "void", "variant",
    "interval day",
    "decimal(38,38)", "decimal(99,1)", "timestamp_ntz", "name", "id", "parquet", "deletionVectors", "columnMapping",
)  # fmt: skip
_NUMBERS = (
    0, -1, 1, 2, 7, 8, 127, 128, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30,
    -(10**400), 0.5, -0.0, 1.0, 1e308,
)  # fmt: skip
_KEYS = (
    "path", "partitionValues", "size", "dataChange", "stats", "add", "remove", "metaData", "protocol", "txn", "cdc",
    "commitInfo", "sidecar", "type", "fields", "name", "metadata", "deletionVector", "storageType", "offset", "unknown",
    "",
)  # fmt: skip
_PARSED = ("schemaString", "stats")  # text that contains JSON


def mutate(rng: random.Random, files: Files) -> tuple[str, Changed]:
    """A description of the change, and the files that it changes."""
    changed: Changed = {}
    words = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        now = {path: data for path, data in (files | changed).items() if data is not None}
        name = rng.choice(_targets(rng, now))
        said, change = _change(rng, name, now)
        words.append(said)
        changed |= change
    return "; ".join(words), changed


def mutate_text(rng: random.Random, text: str) -> str:
    """The text of a predicate or a schema, corrupted."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.randrange(12))
        part = rng.choice(
            (text[at:to] * 2, "", rng.choice(_TEXTS)[:60], str(rng.choice(_NUMBERS)), rng.choice("()'\",.<>=%"))
        )
        text = text[:at] + part + text[to:]
    return text


def _targets(rng: random.Random, files: Files) -> list[str]:
    """The files to corrupt: mostly log objects, sometimes a data file or a deletion vector."""
    log = [path for path in files if path.startswith("_delta_log/") and not path.rsplit("/", 1)[1].startswith(".")]
    rest = [path for path in files if not path.startswith("_delta_log/") and path.endswith((".bin", ".parquet"))]
    return rest if rest and (not log or rng.random() < 0.12) else log or sorted(files)


def _change(rng: random.Random, name: str, files: Files) -> tuple[str, Changed]:
    kinds: list[Callable[[random.Random, bytes], tuple[str, bytes]]] = [_bytes]
    if name.endswith((".json", ".crc", "_last_checkpoint")):
        kinds = [_bytes, _lines, _json, _json, _json, _json]
    elif name.endswith(".parquet") and name.startswith("_delta_log"):
        kinds = [_bytes, _parquet, _parquet, _parquet]
    if rng.random() < 0.04:
        return _whole_file(rng, name, files)
    said, data = rng.choice(kinds)(rng, files[name])
    return f"{name}: {said}", {name: data}


def _whole_file(rng: random.Random, name: str, files: Files) -> tuple[str, Changed]:
    match rng.randrange(4):
        case 0:
            return f"{name}: gone", {name: None}
        case 1:
            return f"{name}: empty", {name: b""}
        case 2:
            other = rng.choice(sorted(files))
            return f"{name}: holds {other}", {name: files[other]}
        case _:
            number = rng.choice((0, 1, 2, 3, 5, 10, 11, 10**19, 10**20 - 1))
            to = f"_delta_log/{number:020d}{rng.choice(('.json', '.checkpoint.parquet', '.crc'))}"
            return f"{name}: also {to}", {to: files[name]}


def _bytes(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    if not data:
        return "one byte", bytes([rng.randrange(256)])
    at = rng.randrange(len(data))
    length = min(len(data) - at, rng.choice((1, 2, 4, 16, 300)))
    match rng.randrange(5):
        case 0:
            return f"cut at {at}", data[:at]
        case 1:
            return f"without {length} bytes at {at}", data[:at] + data[at + length :]
        case 2:
            return f"{length} bytes at {at} twice", data[: at + length] + data[at:]
        case 3:
            extra = rng.choice((b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\x80\x80", b"{", b"[" * 2000, b'"'))
            return f"{extra[:4]!r} put in at {at}", data[:at] + extra + data[at:]
        case _:
            corrupted = bytearray(data)
            places = [rng.randrange(len(data)) for _ in range(rng.choice((1, 2, 8)))]
            for place in places:
                corrupted[place] ^= 1 << rng.randrange(8)
            return f"bits flipped at {places}", bytes(corrupted)


def _lines(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            lines[at], lines[other] = lines[other], lines[at]
            said = f"lines {at} and {other} swapped"
        case 1:
            lines.insert(other, lines[at])
            said = f"line {at} again at {other}"
        case 2:
            del lines[at]
            said = f"without line {at}"
        case _:
            lines[at] = lines[at] + lines[other]
            said = f"line {other} behind line {at}"
    return said, b"\n".join(lines)


def _json(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    lines = data.split(b"\n")
    at = rng.choice([n for n, line in enumerate(lines) if line.strip()] or [0])
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        return _bytes(rng, data)
    said, value = _corrupt(rng, value)
    # "replace" is for halves of surrogate pairs, which are possible as escapes but not as bytes.
    ascii_only = rng.random() < 0.7
    lines[at] = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    return f"line {at} {said}", b"\n".join(lines)


def _corrupt(rng: random.Random, root: Any) -> tuple[str, Any]:
    """Change one place in a JSON value, also inside text that contains JSON."""
    places = list(_places(root, ()))
    path = rng.choice(places) if places else ()
    if not path:
        return "another value", _any_value(rng)
    parent = root
    for key in path[:-1]:
        parent = parent[key]
    key = path[-1]
    value = parent[key]
    shown = "/".join(map(str, path))
    if isinstance(value, str) and key in _PARSED and rng.random() < 0.8:
        try:
            said, inner = _corrupt(rng, json.loads(value))
        except (ValueError, RecursionError):
            return f"{shown} empty", _with(root, parent, key, "")
        return f"{shown} in it {said}", _with(root, parent, key, json.dumps(inner))
    match rng.randrange(6):
        case 0 if isinstance(parent, dict):
            new = rng.choice(_KEYS)
            parent[new] = parent.pop(key)
            return f"{shown} renamed {new!r}", root
        case 1:
            del parent[key]
            return f"without {shown}", root
        case 2:
            other = rng.choice(places)
            return f"{shown} has what {'/'.join(map(str, other))} has", _with(root, parent, key, _copy_of(root, other))
        case 3 if isinstance(parent, list):
            parent.insert(rng.randrange(len(parent) + 1), value)
            return f"{shown} twice", root
        case 4 if type(value) is int:
            new_number = value + rng.choice((-1, 1, 1000, -(10**6), value))
            return f"{shown} is {new_number}", _with(root, parent, key, new_number)
        case _:
            new_value = _any_value(rng)
            return f"{shown} is {new_value!r:.60}", _with(root, parent, key, new_value)


def _places(value: Any, path: tuple[Any, ...]) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _copy_of(root: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        root = root[key]
    return json.loads(json.dumps(root))


def _with(root: Any, parent: Any, key: Any, value: Any) -> Any:
    parent[key] = value
    return root


def _any_value(rng: random.Random, depth: int = 0) -> Any:
    match rng.randrange(7 if depth < 3 else 4):
        case 0:
            return None
        case 1:
            return rng.choice((True, False))
        case 2:
            return rng.choice(_NUMBERS)
        case 3:
            return rng.choice(_TEXTS)
        case 4:
            return [_any_value(rng, depth + 1) for _ in range(rng.randrange(3))]
        case 5:
            return {rng.choice(_KEYS): _any_value(rng, depth + 1) for _ in range(rng.randrange(3))}
        case _:
            nested: Any = "long"
            for _ in range(rng.choice((3, 90, 400))):
                nested = {"type": "array", "elementType": nested, "containsNull": True}
            return nested


def _parquet(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """Change a value in a checkpoint or a sidecar, which stays valid Parquet."""
    try:
        table = pq.ParquetFile(io.BytesIO(data)).read()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):  # corrupted before; ValueError: a name is not UTF-8
        return _bytes(rng, data)
    if not table.num_columns:
        return _bytes(rng, data)
    column = rng.choice(table.column_names)
    index = table.column_names.index(column)
    match rng.randrange(6):
        case 0:
            said, table = f"without {column}", table.drop_columns([column])
        case 1:
            said = f"{column} of another type"
            other = rng.choice((pa.int64(), pa.string(), pa.struct([("path", pa.int64())]), pa.list_(pa.string())))
            table = table.set_column(index, column, pa.nulls(len(table), other))
        case 2:
            at = rng.randrange(len(table)) if len(table) else 0
            said, table = f"row {at} twice", pa.concat_tables([table, table.slice(at, 1)])
        case 3:
            at = rng.randrange(len(table)) if len(table) else 0
            said, table = f"without row {at}", pa.concat_tables([table.slice(0, at), table.slice(at + 1)])
        case 4:
            said, table = (
                f"{column} renamed",
                table.rename_columns([c + "x" if c == column else c for c in table.column_names]),
            )
        case _:
            said, table = _cell(rng, table, index)
    sink = io.BytesIO()
    try:
        # All fields become nullable, because the values may no longer obey the writer's schema.
        nullable = pa.schema([field.with_nullable(True) for field in table.schema])
        pq.write_table(table.cast(nullable), sink, compression=rng.choice(("snappy", "zstd", "none")))
    except pa.ArrowException:
        return _bytes(rng, data)
    return said, sink.getvalue()


def _cell(rng: random.Random, table: pa.Table, index: int) -> tuple[str, pa.Table]:
    """One field of one action: removed, with another type, or with another value."""
    field = table.schema.field(index)
    rows = table.column(index).to_pylist(maps_as_pydicts="lossy")
    places = [n for n, row in enumerate(rows) if isinstance(row, dict) and row]
    if not places or not pa.types.is_struct(field.type):
        return "nothing", table
    at = rng.choice(places)
    key = rng.choice(sorted(rows[at]))
    value = rng.choice((None, rng.choice(_TEXTS[:30]), rng.choice(_NUMBERS[:12]), "same"))
    kind = field.type
    if value != "same":
        rows[at][key] = value
    else:
        drop = kind.get_field_index(key)
        kind = pa.struct([kind.field(n) for n in range(kind.num_fields) if n != drop])
        rows = [row and {k: v for k, v in row.items() if k != key} for row in rows]
    try:
        column = pa.array([_pairs(row, kind) for row in rows], kind)
    except (pa.ArrowException, OverflowError, ValueError, TypeError, AttributeError):
        return f"without {field.name}.{key}", table.drop_columns([field.name])
    return f"{field.name}.{key} of row {at}: {value!r:.40}", table.set_column(index, field.name, column)


def _pairs(value: Any, kind: pa.DataType) -> Any:
    """A value that Arrow accepts: maps as pairs, at any depth."""
    if value is None:
        return None
    if pa.types.is_map(kind) and isinstance(value, dict):
        return list(value.items())
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {field.name: _pairs(value.get(field.name), field.type) for field in kind}
    return value
