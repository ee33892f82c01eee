"""Partition values as text in the log and in folder names (PROTOCOL.md, section Partition Value Serialization).

In the log a value is a string or null, and the empty string means null, too. A timestamp is written as ISO-8601 in UTC
with a Z. It is read in this form or as ``yyyy-MM-dd HH:mm:ss[.ffffff]``. Old writers wrote the second form in their own
time zone. The log does not have this zone, so the second form is read as UTC. Group rows by typed value and never by
string, because an instant has many spellings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import literal, null_scalar
from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.schema import DataType, PrimitiveType
from lakehouse_lib.store import PathLimits

#: The folder name for null. If a value is this text, with or without slashes before it, its folder name has one more
#: slash before it.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

#: The hint for a date or time that not every reader can parse.
YEARS_HINT = "Keep dates and times within the years 0 to 9999, or partition by another column"

#: The hint for a value whose folder name is too long for the store.
LENGTH_HINT = "Shorten the value, or partition by another column"

# Characters that Hive and Spark escape in folder names, and NUL, which file systems refuse. A space is not escaped.
_ESCAPED = {chr(code): f"%{code:02X}" for code in [*range(0x20), *map(ord, "\"#%'*/:=?\\{[]^"), 0x7F]}
_ESCAPES = str.maketrans(_ESCAPED)
#: The escaped characters, as a regular expression of Arrow and Spark; each becomes three bytes.
ESCAPED_CHARACTER = r"[\x00-\x1F\x7F\"#%'*/:=?\\{\[\]^]"

# Days of the years 0 to 9999, and microseconds of a day. Readers do not accept other years.
_DAYS = (-719_528, 2_932_896)
_DAY = 86_400_000_000

#: A text that is read as delta-rs's escapes of bytes, as a regular expression of Arrow and Spark.
ESCAPED_BYTES = r"\A(\\u00[0-9A-Fa-f]{2})+\z"
_ZONE = r"(Z|[+-]\d{2}:?\d{2})$"


def to_strings(column: pa.Array, data_type: DataType) -> pa.Array:
    """The text in the log for each value; null stays null, and the empty string becomes null.

    Args:
        column: values of ``data_type``, from ``schema.align``.
        data_type: a primitive type.

    Raises:
        InvalidArgumentError: the type is nested, a binary value is not UTF-8 (the log has no other form) or would be
            read as escapes of other bytes, or a date or time is before the year 0 or after 9999.
    """
    kind = _primitive(data_type)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    column = column.cast(kind.to_arrow())
    if kind.type in ("date", "timestamp", "timestamp_ntz"):
        _check_years(column)
    if kind.type == "timestamp":
        local = column.cast(pa.timestamp("us"))
        text = pc.replace_substring(pc.cast(local, pa.string()), " ", "T")
        return pc.binary_join_element_wise(text, "Z", "")
    if kind.type in ("float", "double"):
        text = pc.cast(column, pa.string())
        for pattern, java in (("^inf$", "Infinity"), ("^-inf$", "-Infinity"), ("^-?nan$", "NaN")):
            text = pc.replace_substring_regex(text, pattern, java)
        return text
    if kind.type == "void":
        return pa.nulls(len(column), pa.string())
    try:
        text = pc.cast(column, pa.string())
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(
            f"a binary partition value is not UTF-8: {error}",
            hint="Partition by another column",
            code="DELTA_INVALID_PARTITION_VALUE",
        ) from error
    if kind.type == "binary":
        _check_unescaped(text)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def to_typed(strings: pa.Array, data_type: DataType) -> pa.Array:
    """The values for texts in the log; null and the empty string become null.

    Args:
        data_type: a primitive type.

    Raises:
        LogCorruptedError: a text is not a valid value of the type.
        InvalidArgumentError: the type is nested.
    """
    kind = _primitive(data_type)
    if isinstance(strings, pa.ChunkedArray):
        strings = strings.combine_chunks()
    target = kind.to_arrow()
    # A table has few distinct partition values compared to its files, so each text is parsed once.
    encoded = strings.cast(pa.string()).dictionary_encode()
    spellings = encoded.dictionary
    spellings = pc.if_else(pc.equal(spellings, literal("", pa.string())), null_scalar(pa.string()), spellings)
    return _read_all(spellings, kind, target).take(encoded.indices)


def partition_column(files: pa.Table, name: str, data_type: DataType) -> pa.Array:
    """The typed value of a partition column for each row of a files table; a missing key is null.

    Args:
        name: the key of the column in the log (``TableLayout.partition_key``).

    Raises:
        LogCorruptedError: a text is not a valid value of the type.
    """
    column = files.column("partitionValues")
    chunks = [pc.map_lookup(chunk, literal(name, pa.string()), "first") for chunk in column.chunks if len(chunk)]
    strings = pa.concat_arrays(chunks) if chunks else pa.nulls(0, pa.string())
    return to_typed(strings, data_type)


def hive_path(values: Mapping[str, str | None], order: Sequence[str]) -> str:
    """The folder for partition values, ``a=1/b=x%2Fy``: escaped as in Hive, not yet percent-encoded for the log.

    Args:
        values: the text in the log for each partition value.
        order: the table's partition columns; empty gives the empty path.
    """
    parts = []
    for name in order:
        value = values.get(name)
        parts.append(f"{_escape(name)}={_escape(_escape_null(value)) if value else HIVE_NULL}")
    return "/".join(parts)


def parse_hive_path(path: str, columns: Sequence[str]) -> dict[str, str | None]:
    """The partition values in the folder names of a path, with or without a file name at its end.

    Raises:
        InvalidArgumentError: a column of ``columns`` has no folder in the path.
    """
    values = folders(path)
    missing = [name for name in columns if name not in values]
    if missing:
        raise InvalidArgumentError(
            f"the path {path!r} has no folder {missing[0]}=...",
            hint="The path of a file in a partitioned table has a folder for each partition column",
            code="DELTA_INVALID_PARTITION_VALUE",
        )
    return {name: values[name] for name in columns}


def folders(path: str) -> dict[str, str | None]:
    """The values of all ``name=value`` parts of a path, as ``hive_path`` and Spark's writer make them."""
    values: dict[str, str | None] = {}
    for part in path.split("/"):
        name, equals, value = part.partition("=")
        if equals:
            values[unquote(name)] = None if value == HIVE_NULL else _unescape_null(unquote(value))
    return values


def room_for_value(column: str, longest_name: int) -> int:
    """Bytes that an escaped value of this column may have in a folder name.

    Args:
        longest_name: bytes that the store allows for a folder name (``PathLimits.name``).
    """
    return longest_name - len(_escape(column).encode()) - len("=")


def overlong_folders(spelled: Mapping[str, pa.Array], limits: PathLimits) -> Iterator[tuple[str, str, pa.BooleanArray]]:
    """The partition values that make a folder name or a path longer than the store allows.

    Args:
        spelled: for each partition column, in the table's order, the text in the log of each value.
        limits: of the table's store.

    Yields:
        for each limit the column, the problem, and a mask of the values. A long path is reported for the first column
        whose folder exceeds the limit. Columns without such values are left out.
    """
    total: Any = literal(limits.taken, pa.int32())
    was_beyond: Any = literal(False, pa.bool_())
    for column, values in spelled.items():
        escaped = pc.multiply(pc.count_substring_regex(values, ESCAPED_CHARACTER), literal(2, pa.int32()))
        value_bytes = pc.fill_null(pc.add(pc.binary_length(values), escaped), len(HIVE_NULL))
        if limits.name is not None:
            too_long = pc.greater(value_bytes, literal(room_for_value(column, limits.name), pa.int32()))
            if pc.any(too_long).as_py():
                yield column, f"makes a folder name of more than {limits.name} bytes", too_long
        total = pc.add(pc.add(total, value_bytes), literal(len(f"/{_escape(column)}=".encode()), pa.int32()))
        is_beyond = pc.greater(total, literal(limits.path, pa.int32()))
        if pc.any(pc.and_not(is_beyond, was_beyond)).as_py():
            yield column, f"makes a {limits.noun} of more than {limits.path} bytes", pc.and_not(is_beyond, was_beyond)
        was_beyond = is_beyond


def _check_years(column: pa.Array) -> None:
    # Compare the integers, because Arrow's computation of years overflows.
    first, last = _DAYS
    if pa.types.is_timestamp(column.type):
        first, last = first * _DAY, (last + 1) * _DAY - 1
        column = column.cast(pa.timestamp("us"))
        numbers = column.cast(pa.int64())
    else:
        numbers = column.cast(pa.int32())
    invalid_values = column.filter(pc.or_(pc.less(numbers, first), pc.greater(numbers, last)))
    if len(invalid_values):
        raise InvalidArgumentError(
            f"the partition value {pc.cast(invalid_values[:1], pa.string())[0]} has a year that readers do not accept",
            hint=YEARS_HINT,
            code="DELTA_INVALID_PARTITION_VALUE",
        )


def _check_unescaped(texts: pa.Array) -> None:
    # They are not written as escapes either, because Spark and delta-rs read escapes as plain text.
    escaped = texts.filter(pc.match_substring_regex(texts, ESCAPED_BYTES))
    if len(escaped):
        raise InvalidArgumentError(
            f"the binary partition value {excerpt(escaped[0].as_py())} looks like escapes of other bytes; expected "
            "bytes that are not only such escapes",
            hint="Partition by another column",
            code="DELTA_INVALID_PARTITION_VALUE",
        )


def _escape_null(text: str) -> str:
    return f"/{text}" if text.lstrip("/") == HIVE_NULL else text


def _unescape_null(text: str) -> str:
    return text.removeprefix("/") if text.lstrip("/") == HIVE_NULL else text


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)


def _primitive(data_type: DataType) -> PrimitiveType:
    if not isinstance(data_type, PrimitiveType):
        raise InvalidArgumentError(
            f"a table cannot be partitioned by a column of type {data_type}",
            hint="Partition by a column of a primitive type",
            code="DELTA_INVALID_PARTITION_COLUMN",
        )
    return data_type


def _read_all(spellings: pa.Array, kind: PrimitiveType, target: pa.DataType) -> pa.Array:
    read = _READERS.get(kind.type, _read_plain)
    try:
        return read(spellings, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise LogCorruptedError(
            f"a partition value is not a valid {kind.type}: {error}",
            hint="Restore the log from a backup, or remove the file's entry and add it again",
        ) from error


def _read_plain(spellings: pa.Array, target: pa.DataType) -> pa.Array:
    return spellings.cast(target)


def _read_binary(spellings: pa.Array, target: pa.DataType) -> pa.Array:
    # Spark writes the bytes as UTF-8 text, delta-rs as \\u00XX for each byte.
    is_escaped = pc.match_substring_regex(spellings, ESCAPED_BYTES)
    if not pc.any(is_escaped).as_py():
        return spellings.cast(target)
    read = [
        None if text is None else bytes.fromhex(text.replace("\\u00", "")) if escaped else text.encode()
        for text, escaped in zip(spellings.to_pylist(), is_escaped.to_pylist(), strict=True)
    ]
    return pa.array(read, target)


def _read_float(spellings: pa.Array, target: pa.DataType) -> pa.Array:
    return pc.replace_substring_regex(spellings, "Infinity", "inf").cast(target)


def _read_timestamp(spellings: pa.Array, target: pa.DataType) -> pa.Array:
    has_zone = pc.fill_null(pc.match_substring_regex(spellings, _ZONE), literal(False, pa.bool_()))
    null_text = null_scalar(pa.string())
    local = pc.if_else(has_zone, null_text, spellings).cast(pa.timestamp("us"))
    instants = pc.if_else(has_zone, spellings, null_text).cast(pa.timestamp("us", tz="UTC"))
    return pc.coalesce(instants, local.cast(pa.timestamp("us", tz="UTC"))).cast(target)


def _read_void(spellings: pa.Array, target: pa.DataType) -> pa.Array:
    return pa.nulls(len(spellings), target)


_READERS: dict[str, Callable[[pa.Array, Any], pa.Array]] = {
    "binary": _read_binary,
    "float": _read_float,
    "double": _read_float,
    "timestamp": _read_timestamp,
    "timestamp_ntz": _read_timestamp,
    "void": _read_void,
}
