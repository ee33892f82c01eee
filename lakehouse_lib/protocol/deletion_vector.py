"""Deletion vectors: the deleted rows of a data file (PROTOCOL.md, Deletion Vectors and Deletion Vector Format).

A vector is a set of row positions in a data file, counted from 0 over the whole file, as a 64-bit Roaring bitmap. Its
descriptor in the log gives the place: in the log itself (``i``), in a file in the table's folder whose name is a UUID
(``u``), or in a file at an absolute path (``p``). A file may have the vectors of many data files.

    file:    version 1 (1 byte), then for each vector: size (int32, big-endian), data, CRC-32 of the data (big-endian)
    data:    1681511377 (int32, little-endian), then the bitmap in Roaring's portable 64-bit form
    offset:  position of the size, from the start of the file
    inline:  the data in Z85, padded to whole groups; ``sizeInBytes`` is its length without padding
"""

from __future__ import annotations

import struct
import uuid
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakehouse_lib.arrow.values import as_array, literal, strings
from lakehouse_lib.errors import LogCorruptedError, ObjectNotFoundError
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.protocol.actions import DELETION_VECTOR
from lakehouse_lib.store import ObjectStore

_VERSION = 1
_MAGIC = 1681511377
_UUID_LENGTH = 20  # characters in Z85, for 16 bytes
_FIRST = 1  # position of a file's first vector, after the version

# Every reader reads the whole commit, so larger vectors are put into a file.
_INLINE_BYTES = 1024
# An offset in a file has 32 bits, and a file is written by one request.
_FILE_BYTES = 32 << 20

# The limits of a valid size. A position needs at most one Roaring container (22 bytes). An empty bucket needs 12 bytes.
_BYTES_A_POSITION = 32
_BYTES_WITHOUT_POSITIONS = 1 << 16


def load(store: ObjectStore, descriptor: Mapping[str, Any] | None) -> BitMap64:
    """The deleted positions of a data file, counted from 0 over the whole file.

    Args:
        descriptor: the ``deletionVector`` of the file's ``add`` or ``remove`` action; None: no row is deleted.

    Raises:
        LogCorruptedError: the descriptor is not valid, or the vector does not match it: another size, checksum or
            number of rows.
        ObjectNotFoundError: the vector's file is missing.
        PathOutsideTableError: the vector's file is outside the table's folder and the folders that ``store`` allows.
    """
    if descriptor is None:
        return BitMap64()
    where = "inline in the log"
    try:
        kind, size, cardinality = _checked_fields(descriptor)
        if kind == "i":
            data = _inline_data(str(descriptor["pathOrInlineDv"]), size)
        else:
            text = str(descriptor["pathOrInlineDv"])
            where = file_paths.decode(text if kind == "p" else file_paths.encode(_uuid_path(text)), store)
            data = _stored_data(store, where, descriptor.get("offset"), size)
        return _bitmap(data, cardinality)
    except _DefectError as error:
        raise LogCorruptedError(
            f"the deletion vector {where} cannot be used: {error}",
            table=store.root,
            hint="Restore the vector's file from a backup, or read an older version from before the rows were deleted",
            code="DELTA_DELETION_VECTOR_CORRUPTED",
        ) from error
    except ObjectNotFoundError as error:
        raise ObjectNotFoundError(
            f"the deletion vector file {where} is missing although the log refers to it",
            table=store.root,
            hint="A vacuum with a short retention or another program deleted it; restore the file, or read an older "
            "version",
        ) from error


def save(store: ObjectStore, vectors: Iterable[BitMap64]) -> list[dict[str, Any]]:
    """Write vectors durably and return their descriptors, which a commit may refer to.

    A vector of at most 1 KiB is stored in its descriptor. Larger vectors are written to new files in the table's
    folder, about 32 MiB of vectors to a file.
    """
    descriptors: list[dict[str, Any]] = []
    name, content = uuid.uuid4(), bytearray([_VERSION])
    for deleted in vectors:
        data = _data(deleted)
        if len(data) <= _INLINE_BYTES:
            descriptors.append(inline(deleted))
            continue
        if len(content) + len(data) > _FILE_BYTES and len(content) > _FIRST:
            store.put(_file_name(name), bytes(content))
            name, content = uuid.uuid4(), bytearray([_VERSION])
        sizes = {"sizeInBytes": len(data), "cardinality": len(deleted)}
        text = _z85_encode(name.bytes)
        descriptors.append({"storageType": "u", "pathOrInlineDv": text, "offset": len(content), **sizes})
        content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    if len(content) > _FIRST:
        store.put(_file_name(name), bytes(content))
    return descriptors


def inline(deleted: BitMap64) -> dict[str, Any]:
    """The descriptor of a vector that is stored in the descriptor itself, whatever its size."""
    data = _data(deleted)
    text = _z85_encode(data + bytes(-len(data) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(deleted)}


def all_but(shown: BitMap64, rows: int) -> dict[str, Any]:
    """The descriptor of an inline vector that deletes all ``rows`` rows of a file except the positions ``shown``."""
    deleted = BitMap64()
    deleted.add_range(0, rows)
    deleted -= shown
    deleted.run_optimize()
    return inline(deleted)


def check_rows(deleted: BitMap64, path: str, rows: int, *, table: str) -> None:
    """Check that a vector's positions are rows of its file.

    Raises:
        LogCorruptedError: the vector deletes a row after the ``rows`` rows of the data file ``path``.
    """
    if len(deleted) and deleted.max() >= rows:
        raise LogCorruptedError(
            f"the deletion vector of {path} deletes row {deleted.max()}, but the file has {rows} rows",
            table=table,
            hint="Restore the log from a backup, or read an older version",
            code="DELTA_DELETION_VECTOR_CORRUPTED",
        )


def paths_of(store: ObjectStore, vectors: pa.ChunkedArray) -> pa.Array:
    """The distinct files of vectors, as canonical store paths; inline vectors have no file.

    Args:
        vectors: a ``deletionVector`` column, null for files without a vector.

    Raises:
        LogCorruptedError: a descriptor is not valid.
    """
    vectors = as_array(vectors.filter(vectors.is_valid()))
    kind, text = pc.struct_field(vectors, "storageType"), pc.struct_field(vectors, "pathOrInlineDv")
    try:
        is_invalid = pc.or_(pc.invert(pc.is_in(kind, value_set=strings(["u", "i", "p"]))), text.is_null())
        if pc.any(is_invalid, min_count=0).as_py():
            _checked_fields(vectors.filter(is_invalid)[0].as_py())
        encoded_names = pc.unique(text.filter(pc.equal(kind, literal("u", pa.string())))).to_pylist()
        named_paths = strings([file_paths.encode(_uuid_path(encoded_name)) for encoded_name in encoded_names])
    except _DefectError as error:
        raise LogCorruptedError(
            f"a descriptor of a deletion vector is not valid: {error}",
            table=store.root,
            hint="Restore the log from a backup, or read an older version",
            code="DELTA_DELETION_VECTOR_CORRUPTED",
        ) from error
    absolute = pc.unique(text.filter(pc.equal(kind, literal("p", pa.string()))))
    return pc.unique(
        pa.concat_arrays([file_paths.canonical(absolute, store), file_paths.canonical(named_paths, store)])
    )


def file_of(text: str) -> str:
    """The path of a vector's file, from a ``pathOrInlineDv`` of storage type u that ``paths_of`` has checked."""
    return _uuid_path(text)


def moved_vectors(vectors: pa.ChunkedArray, kind: str, text_of: Callable[[str], str]) -> pa.Array:
    """A ``deletionVector`` column for files in another folder; inline vectors stay as they are.

    Args:
        kind: the new storage type of vectors with the storage type u.
        text_of: returns the new ``pathOrInlineDv`` for the old one; called once for each file of vectors.
    """
    column = as_array(vectors)
    fields = {field.name: pc.struct_field(column, field.name) for field in DELETION_VECTOR}
    is_file = pc.fill_null(pc.equal(fields["storageType"], literal("u", pa.string())), literal(False, pa.bool_()))
    texts = pc.unique(fields["pathOrInlineDv"].filter(is_file))
    new_texts = strings([text_of(text) for text in texts.to_pylist()])
    new = new_texts.take(pc.index_in(fields["pathOrInlineDv"], value_set=texts))
    fields["pathOrInlineDv"] = pc.if_else(is_file, new, fields["pathOrInlineDv"])
    fields["storageType"] = pc.if_else(is_file, literal(kind, pa.string()), fields["storageType"])
    return pa.StructArray.from_arrays(list(fields.values()), fields=list(DELETION_VECTOR), mask=column.is_null())


def live_row_mask(deleted: BitMap64, start: int, count: int) -> pa.BooleanArray:
    """A mask of the rows ``start`` to ``start + count`` of a file: true for rows that are not deleted."""
    window = BitMap64()
    window.add_range(start, start + count)
    mask = np.ones(count, dtype=bool)
    mask[positions(deleted & window) - start] = False
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), count, [None, bits])


def positions(bitmap: BitMap64) -> npt.NDArray[np.int64]:
    """The positions in a bitmap, ascending."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64)


def bitmap_of(positions: npt.NDArray[np.int64]) -> BitMap64:
    """The bitmap of positions."""
    return BitMap64(array("Q", positions.astype(np.uint64).tobytes()))


class _DefectError(Exception):
    """A defect of a vector; the caller adds the place of the vector."""


def _checked_fields(descriptor: Mapping[str, Any]) -> tuple[str, int, int]:
    kind, size, cardinality = (descriptor.get(key) for key in ("storageType", "sizeInBytes", "cardinality"))
    if kind not in ("u", "i", "p"):
        raise _DefectError(f"storageType is {kind!r}; expected u, i or p")
    if not isinstance(descriptor.get("pathOrInlineDv"), str):
        raise _DefectError(f"pathOrInlineDv is {descriptor.get('pathOrInlineDv')!r}; expected text")
    if not isinstance(size, int) or size < 0:
        raise _DefectError(f"sizeInBytes is {size!r}; expected a number from 0")
    if not isinstance(cardinality, int) or cardinality < 0:
        raise _DefectError(f"cardinality is {cardinality!r}; expected a number from 0")
    if size > _BYTES_WITHOUT_POSITIONS + _BYTES_A_POSITION * cardinality:
        raise _DefectError(f"sizeInBytes is {size}, more than any vector of {cardinality} positions has")
    return str(kind), size, cardinality


def _uuid_path(text: str) -> str:
    """The path of a vector's file: ``ab^-aqEH.-t@S}K{vb[*k^`` is in the folder ``ab``, and its last 20 characters are
    the UUID of the file name."""
    folder, name = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
    if len(name) < _UUID_LENGTH:
        raise _DefectError(f"{text!r} is shorter than a UUID in Z85")
    file = _file_name(uuid.UUID(bytes=_z85_decode(name)))
    return f"{folder}/{file}" if folder else file


def _file_name(name: uuid.UUID) -> str:
    return f"deletion_vector_{name}.bin"


def _inline_data(text: str, size: int) -> bytes:
    data = _z85_decode(text)
    if not size <= len(data) < size + 4:
        raise _DefectError(f"it has {len(data)} bytes; expected sizeInBytes, {size}")
    return data[:size]


def _stored_data(store: ObjectStore, path: str, offset: object, size: int) -> bytes:
    """The data at ``offset``, without reading the rest of the file."""
    start = _FIRST if offset is None else offset
    if not isinstance(start, int) or start < _FIRST:
        raise _DefectError(f"offset is {offset!r}; expected a number from {_FIRST}")
    with store.open_input(path) as file:
        try:
            length = file.size()
            if start + size + 8 > length:
                raise _DefectError(f"its file has {length} bytes, too few for {size} bytes at offset {start}")
            version = file.read(1)
            file.seek(start)
            frame = file.read(size + 8)
        except (pa.ArrowException, OSError) as error:
            raise _DefectError(str(error)) from error
    if len(frame) != size + 8:
        raise _DefectError(f"its file has {len(frame)} bytes at offset {start}; expected {size + 8}")
    if version != bytes([_VERSION]):
        raise _DefectError(f"its file has the format version {version[0]}; expected {_VERSION}")
    (stored_size,) = struct.unpack_from(">i", frame, 0)
    (checksum,) = struct.unpack_from(">I", frame, size + 4)
    if stored_size != size:
        raise _DefectError(f"its size at offset {start} is {stored_size}; expected sizeInBytes, {size}")
    data = bytes(memoryview(frame)[4 : size + 4])
    if zlib.crc32(data) != checksum:
        raise _DefectError(f"the checksum of its {size} bytes at offset {start} does not match")
    return data


def _data(deleted: BitMap64) -> bytes:
    return struct.pack("<I", _MAGIC) + deleted.serialize()


def _bitmap(data: bytes, cardinality: int) -> BitMap64:
    if len(data) < 12:
        raise _DefectError(f"it has {len(data)} bytes; expected at least 12")
    (magic,) = struct.unpack_from("<I", data)
    if magic != _MAGIC:
        raise _DefectError(f"it begins with {magic}; expected {_MAGIC}")
    try:
        bitmap = BitMap64.deserialize(data[4:])
    except (ValueError, IndexError) as error:
        raise _DefectError(f"it is not a valid Roaring bitmap: {error}") from error
    if len(bitmap) != cardinality:
        raise _DefectError(f"it deletes {len(bitmap)} rows; expected the cardinality, {cardinality}")
    return bitmap


# Z85 (ZeroMQ RFC 32): five characters for four bytes, big-endian.
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS: npt.NDArray[np.uint64] = np.full(256, 85, dtype=np.uint64)
_DIGITS[np.frombuffer(_Z85, dtype=np.uint8)] = np.arange(85, dtype=np.uint64)
_WEIGHTS = np.array([85**4, 85**3, 85**2, 85, 1], dtype=np.uint64)


def _z85_encode(data: bytes) -> str:
    groups = np.frombuffer(data, dtype=">u4").astype(np.uint64)
    digits = (groups[:, None] // _WEIGHTS % np.uint64(85)).astype(np.int64)
    return np.frombuffer(_Z85, dtype=np.uint8)[digits.ravel()].tobytes().decode("ascii")


def _z85_decode(text: str) -> bytes:
    try:
        encoded = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    except UnicodeEncodeError as error:
        raise _DefectError("it has characters that are not Z85") from error
    digits = _DIGITS[encoded]
    if len(digits) % 5 or (digits == 85).any():
        raise _DefectError(f"its {len(text)} characters are not Z85")
    groups = digits.reshape(-1, 5) @ _WEIGHTS
    if (groups > 0xFFFFFFFF).any():
        raise _DefectError("a group of Z85 characters exceeds 4 bytes")
    return groups.astype(">u4").tobytes()
