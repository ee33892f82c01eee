"""The options of pyarrow's Parquet writer for one data file, from the table and the caller's ``WriterProperties``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lakehouse_lib import statistics
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.stored_schema import stored_schema
from lakehouse_lib.engine.writer_properties import ColumnProperties, WriterProperties
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.protocol.table_properties import COMPRESSION_CODEC
from lakehouse_lib.statistics.floats import ParquetPath

# Codec of COMPRESSION_CODECS -> (pyarrow's name, part of the file name).
_CODECS = {
    "uncompressed": ("none", ""),
    "none": ("none", ""),
    "snappy": ("snappy", ".snappy"),
    "gzip": ("gzip", ".gz"),
    "zstd": ("zstd", ".zstd"),
    "lz4": ("lz4", ".lz4raw"),
    "lz4_raw": ("lz4", ".lz4raw"),
    "brotli": ("brotli", ".br"),
}


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind))


#: Encoding -> whether pyarrow can store a type in it. PLAIN stores all types.
_STORES: Mapping[str, Callable[[pa.DataType], bool]] = {
    "RLE": pa.types.is_boolean,
    "DELTA_BINARY_PACKED": _is_integer,
    "DELTA_LENGTH_BYTE_ARRAY": _is_text,
    "DELTA_BYTE_ARRAY": lambda kind: _is_text(kind) or _is_decimal(kind),
    "BYTE_STREAM_SPLIT": lambda kind: _is_integer(kind) or _is_decimal(kind) or bool(pa.types.is_floating(kind)),
}


@dataclass(frozen=True)
class FileOptions:
    """The options of new data files of a table.

    Attributes:
        suffix: the part of a file's name that shows the codec.
        arguments: arguments of ``pq.ParquetWriter`` that are the same for all files.
        leaves: the properties of leaf columns, by path; a leaf column without an entry has the defaults.
        row_group_rows: maximum rows of a row group; None: the writer's default.
        string_prefix: maximum characters of a string in the statistics of the log.
    """

    suffix: str
    arguments: Mapping[str, Any]
    leaves: Mapping[ParquetPath, ColumnProperties]
    row_group_rows: int | None
    string_prefix: int

    @property
    def without_statistics(self) -> frozenset[ParquetPath]:
        """The leaf columns that are written without statistics."""
        return frozenset(path for path, properties in self.leaves.items() if _level(properties) == "NONE")

    def encodings(self, schema: pa.Schema, sampled: Collection[str]) -> dict[str, Any]:
        """The arguments of ``pq.ParquetWriter`` for dictionaries and encodings.

        Args:
            schema: the schema of the file.
            sampled: the columns whose values repeat in a sample, so that a dictionary is useful.
        """
        names = frozenset(sampled)
        dictionaries: list[str] = []
        encodings: dict[str, str] = {}
        for path, _ in statistics.parquet_leaves(schema):
            properties = self.leaves.get(path, _DEFAULT)
            if properties.encoding is not None:
                encodings[".".join(path)] = properties.encoding.upper()
            elif path[0] in names if properties.dictionary_enabled is None else properties.dictionary_enabled:
                dictionaries.append(".".join(path))
        return {"use_dictionary": dictionaries, "column_encoding": encodings or None}


def codec_of(target: WriteTarget) -> str:
    """The codec of new files: that of the writer properties, else that of the table."""
    codec = None if target.writer_properties is None else target.writer_properties.codec
    return codec or COMPRESSION_CODEC.of(target.configuration, target.store.root)


def file_options(target: WriteTarget) -> FileOptions:
    """The options for new data files of a table.

    Raises:
        InvalidArgumentError: the writer properties name a column that the table does not have, or an encoding that
            cannot store the type of its column.
    """
    properties = target.writer_properties or WriterProperties()
    codec, suffix = _CODECS[codec_of(target)]
    leaves = _row_ids(target) | _leaves(properties, target)
    arguments = {
        "compression": codec,
        "compression_level": properties.level,
        "data_page_size": properties.data_page_size_limit,
        "dictionary_pagesize_limit": properties.dictionary_page_size_limit,
        "max_rows_per_page": properties.data_page_row_count_limit,
        "write_batch_size": properties.write_batch_size,
        "bloom_filter_options": _bloom_filters(leaves, target),
        # pyarrow writes the page index of all columns or of none.
        "write_page_index": not leaves or any(_level(each) == "PAGE" for each in leaves.values()),
        # Readers take types from the log, so footers do not need the Arrow schema.
        "store_schema": False,
    }
    prefix = properties.statistics_truncate_length or statistics.STRING_PREFIX
    return FileOptions(suffix, arguments, leaves, properties.max_row_group_size, prefix)


def _leaves(properties: WriterProperties, target: WriteTarget) -> dict[ParquetPath, ColumnProperties]:
    """The properties of the leaves of the table's columns; empty if no column has properties."""
    layout = target.layout
    default = properties.default_column_properties or _DEFAULT
    by_column: dict[str, ColumnProperties] = {}
    for name, each in (properties.column_properties or {}).items():
        column = layout.schema.get(name)
        if column is None:
            raise _invalid(f"column_properties has {name!r}; expected columns of the table", target)
        by_column[layout.physical_name(column)] = each.over(default)
    leaves: dict[ParquetPath, ColumnProperties] = {}
    if not by_column and default == _DEFAULT:
        return leaves
    for path, kind in statistics.parquet_leaves(stored_schema(replace(layout, row_ids=None))):
        leaves[path] = by_column.get(path[0], default)
        encoding = (leaves[path].encoding or "PLAIN").upper()
        if encoding != "PLAIN" and not _STORES[encoding](kind):
            raise _invalid(f"the encoding of {'.'.join(path)!r} is {encoding}, which cannot store {kind}", target)
    return leaves


def _row_ids(target: WriteTarget) -> dict[ParquetPath, ColumnProperties]:
    """The properties of the row id column, which stores the difference between one id and the next.

    The column takes one or two bits per row instead of four bytes.
    """
    row_ids = target.layout.row_ids
    return {} if row_ids is None else {(row_ids.ids,): ColumnProperties(encoding="DELTA_BINARY_PACKED")}


def _bloom_filters(
    leaves: Mapping[ParquetPath, ColumnProperties], target: WriteTarget
) -> dict[str, dict[str, Any]] | None:
    """pyarrow's ``bloom_filter_options``. Parquet has no Bloom filter of booleans."""
    filters = {path: each.bloom_filter_properties for path, each in leaves.items() if each.bloom_filter_properties}
    if not filters:
        return None
    options: dict[str, dict[str, Any]] = {}
    for path, kind in statistics.parquet_leaves(stored_schema(target.layout)):
        bloom = filters.get(path)
        if bloom is not None and bloom.is_on and not pa.types.is_boolean(kind):
            values = {"fpp": bloom.fpp, "ndv": bloom.ndv}
            options[".".join(path)] = {name: value for name, value in values.items() if value is not None}
    return options or None


def _level(properties: ColumnProperties) -> str:
    return (properties.statistics_enabled or "PAGE").upper()


def _invalid(message: str, target: WriteTarget) -> InvalidArgumentError:
    return InvalidArgumentError(
        message,
        table=target.store.root,
        hint=f"Correct the writer properties; the columns are {', '.join(target.layout.schema.names)}",
        code="DELTA_INVALID_WRITER_PROPERTIES",
    )


_DEFAULT = ColumnProperties()
