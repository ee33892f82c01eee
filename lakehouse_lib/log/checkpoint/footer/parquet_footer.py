"""The column statistics in a Parquet footer, read without trusting the footer.

If a damaged footer contradicts itself, pyarrow's own view of a column chunk ends the whole process: parquet-cpp throws
an exception that nothing catches. So the footer's Thrift (parquet-format, parquet.thrift; Thrift compact protocol) is
checked here first. Reading the data itself raises an ordinary error for other damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)

# Thrift field numbers on the path from FileMetaData to a column chunk.
_ROW_GROUPS, _COLUMNS, _META_DATA = 4, 1, 3
_TYPE, _STATISTICS, _BLOOM_OFFSET, _BLOOM_LENGTH, _SIZE_STATISTICS = 1, 12, 14, 15, 16
_NULL_COUNT = 3
_UNENCODED_BYTES, _REPETITION_HISTOGRAM, _DEFINITION_HISTOGRAM = 1, 2, 3

# Of a BloomFilterHeader: the length of the bitset, and three unions, each with one known member.
_NUM_BYTES, _UNIONS = 1, (2, 3, 4)

# parquet.thrift, enum Type.
_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """The statistics of one column chunk.

    Attributes:
        null_count: None if the footer does not have it.
        sound: whether the chunk fits the schema, so that pyarrow's view of it is safe to use.
        bloom: the offset of its Bloom filter in the file and its length in bytes with the header; None: it has none.
    """

    null_count: int | None
    sound: bool
    bloom: tuple[int, int] | None = None


def chunk_statistics(footer: pq.FileMetaData) -> list[list[ChunkStatistics]]:
    """The statistics of each leaf column, in the order of the schema, for each row group.

    Raises:
        ValueError: the footer is truncated, or the number of its row groups or of their columns is wrong.
    """
    sink = pa.BufferOutputStream()
    footer.write_metadata_file(sink)  # writes magic number, footer as it was read, its length, magic number
    data = sink.getvalue().to_pybytes()
    schema = footer.schema
    leaves = [_leaf(schema.column(index)) for index in range(footer.num_columns)]
    try:
        row_groups = _Compact(data[4:-8]).row_groups()
    except (IndexError, RecursionError) as error:
        raise ValueError("the footer is truncated, or nested without end") from error
    if len(row_groups) != footer.num_row_groups or any(len(group) != footer.num_columns for group in row_groups):
        raise ValueError("the columns of the footer's row groups do not match its schema")
    return [
        [
            ChunkStatistics(chunk.null_count, chunk.fits(leaf), chunk.bloom)
            for chunk, leaf in zip(group, leaves, strict=True)
        ]
        for group in row_groups
    ]


def bloom_bitset(data: bytes) -> bytes | None:
    """The bitset of a Bloom filter that is stored with its header; None if the kind of filter is not supported.

    Raises:
        ValueError: the filter is truncated.
    """
    reader = _Compact(data)
    try:
        size = reader.bloom_header()
    except (IndexError, RecursionError) as error:
        raise ValueError("a Bloom filter is truncated") from error
    if size is None:
        return None
    bitset = data[reader.position : reader.position + size]
    if len(bitset) < size or size < 32 or size % 32:
        raise ValueError("a Bloom filter does not have the length that its header gives")
    return bitset


class _Leaf(NamedTuple):
    type: str
    repetition: int
    definition: int


def _leaf(column: pq.ColumnSchema) -> _Leaf:
    return _Leaf(column.physical_type, column.max_repetition_level, column.max_definition_level)


@dataclass(slots=True)
class _Chunk:
    """The fields of a ColumnMetaData that must fit the schema, and its Bloom filter."""

    type: int = -1
    null_count: int | None = None
    has_unencoded_bytes: bool = False
    repetition: int = 0  # lengths of the histograms; a missing histogram counts as an empty one
    definition: int = 0
    bloom_offset: int = 0
    bloom_length: int = 0

    @property
    def bloom(self) -> tuple[int, int] | None:
        return (self.bloom_offset, self.bloom_length) if self.bloom_offset > 0 and self.bloom_length > 0 else None

    def fits(self, leaf: _Leaf) -> bool:
        return (
            0 <= self.type < len(_TYPES)
            and _TYPES[self.type] == leaf.type
            and (not self.has_unencoded_bytes or leaf.type == "BYTE_ARRAY")
            and self.repetition in (0, leaf.repetition + 1)
            and self.definition in (0, leaf.definition + 1)
        )


class _Compact:
    """A reader of Thrift's compact protocol for a footer or the header of a Bloom filter."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def position(self) -> int:
        return self._at

    def bloom_header(self) -> int | None:
        size: int | None = None
        unions = set()
        for field, kind in self._fields():
            if (field, kind) == (_NUM_BYTES, _I32):
                size = self._integer()
            elif field in _UNIONS and kind == _STRUCT:
                for member, inner in self._fields():
                    if member == 1:
                        unions.add(field)
                    self._skip(inner)
            else:
                self._skip(kind)
        return size if unions.issuperset(_UNIONS) else None

    def row_groups(self) -> list[list[_Chunk]]:
        groups: list[list[_Chunk]] = []
        for field, kind in self._fields():
            if (field, kind) == (_ROW_GROUPS, _LIST):
                groups = [self._row_group() for _ in range(self._structs())]
            else:
                self._skip(kind)
        return groups

    def _row_group(self) -> list[_Chunk]:
        chunks: list[_Chunk] = []
        for field, kind in self._fields():
            if (field, kind) == (_COLUMNS, _LIST):
                chunks = [self._column_chunk() for _ in range(self._structs())]
            else:
                self._skip(kind)
        return chunks

    def _column_chunk(self) -> _Chunk:
        chunk = _Chunk()
        for field, kind in self._fields():
            if (field, kind) == (_META_DATA, _STRUCT):
                self._meta_data(chunk)
            else:
                self._skip(kind)
        return chunk

    def _meta_data(self, chunk: _Chunk) -> None:
        for field, kind in self._fields():
            if (field, kind) == (_TYPE, _I32):
                chunk.type = self._integer()
            elif (field, kind) == (_STATISTICS, _STRUCT):
                for inner, inner_kind in self._fields():
                    if (inner, inner_kind) == (_NULL_COUNT, _I64):
                        chunk.null_count = self._integer()
                    else:
                        self._skip(inner_kind)
            elif (field, kind) == (_SIZE_STATISTICS, _STRUCT):
                self._size_statistics(chunk)
            elif (field, kind) == (_BLOOM_OFFSET, _I64):
                chunk.bloom_offset = self._integer()
            elif (field, kind) == (_BLOOM_LENGTH, _I32):
                chunk.bloom_length = self._integer()
            else:
                self._skip(kind)

    def _size_statistics(self, chunk: _Chunk) -> None:
        for field, kind in self._fields():
            if kind == _LIST and field in (_REPETITION_HISTOGRAM, _DEFINITION_HISTOGRAM):
                size, inner = self._list_header()
                for _ in range(size):
                    self._skip(inner)
                if field == _REPETITION_HISTOGRAM:
                    chunk.repetition = size
                else:
                    chunk.definition = size
            else:
                chunk.has_unencoded_bytes |= field == _UNENCODED_BYTES
                self._skip(kind)

    def _fields(self) -> Iterator[tuple[int, int]]:
        """The number and type of each field of the struct that starts here; the caller reads or skips its value."""
        field = 0
        while (header := self._data[self._at]) & 0x0F:
            field, kind = self._field(header, field)
            yield field, kind
        self._at += 1

    def _integer(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _field(self, header: int, last: int) -> tuple[int, int]:
        self._at += 1
        if header >> 4:
            return last + (header >> 4), header & 0x0F
        return self._integer(), header & 0x0F

    def _structs(self) -> int:
        size, kind = self._list_header()
        if kind != _STRUCT:
            raise ValueError("the footer has a list of another type where it should have structs")
        return size

    def _list_header(self) -> tuple[int, int]:
        header = self._data[self._at]
        self._at += 1
        size = header >> 4
        size = self._varint() if size == 15 else size
        if size > len(self._data):
            raise ValueError("the footer has a list that is longer than the footer")
        return size, header & 0x0F

    def _varint(self) -> int:
        data, at = self._data, self._at
        byte = data[at]
        value, shift = byte & 0x7F, 7
        while byte & 0x80:
            at += 1
            byte = data[at]
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 70:
                raise ValueError("the footer has a number of more than 64 bits")
        self._at = at + 1
        return value

    def _skip(self, kind: int) -> None:
        if kind in (_TRUE, _FALSE):
            return
        if kind == _BYTE:
            self._at += 1
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            length = self._varint()
            self._at += length
        elif kind in (_LIST, _SET):
            size, inner = self._list_header()
            for _ in range(size):
                self._skip(_BYTE if inner in (_TRUE, _FALSE) else inner)
        elif kind == _STRUCT:
            field = 0
            while (header := self._data[self._at]) & 0x0F:
                field, inner = self._field(header, field)
                self._skip(inner)
            self._at += 1
        else:  # a map: Parquet's footers do not have maps
            raise ValueError(f"the footer has a field of the kind {kind}")
