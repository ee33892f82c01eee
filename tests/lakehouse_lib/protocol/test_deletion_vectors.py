"""The examples of vectors in the protocol's text, every storage type, and every way to break one."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakehouse_lib.errors import LogCorruptedError, ObjectNotFoundError, PathOutsideTableError
from lakehouse_lib.protocol.actions import DELETION_VECTOR
from lakehouse_lib.protocol.deletion_vector import live_row_mask, load, paths_of
from lakehouse_lib.store import open_store
from tests.deletion_vector_bytes import in_file, inline, vector_data, z85


def test_reads_the_inline_vector_of_the_protocol_text(tmp_path: Path) -> None:
    # The text shows the vector in an older form with another magic number; this is it in the form that the text
    # defines.
    descriptor = {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 44,
        "cardinality": 6,
    }
    assert list(load(open_store(tmp_path), descriptor)) == [3, 4, 7, 11, 18, 29]
    older = {**descriptor, "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 40}
    with pytest.raises(LogCorruptedError, match="expected 1681511377"):
        load(open_store(tmp_path), older)


def test_finds_the_file_of_the_protocol_text(tmp_path: Path) -> None:
    descriptor = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    paths = paths_of(open_store(tmp_path), vectors(None, descriptor, descriptor)).to_pylist()
    assert paths == ["ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"]


def vectors(*descriptors: dict[str, Any] | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(descriptors, DELETION_VECTOR)])


@pytest.mark.parametrize("prefix", ["", "ab", "a b%20c", "deep/er"])
def test_names_every_file_that_holds_vectors(tmp_path: Path, prefix: str) -> None:
    stored = in_file(tmp_path, [1], [2], prefix=prefix) + in_file(tmp_path, [3], prefix=prefix, absolute=True)
    paths = paths_of(open_store(tmp_path), vectors(None, inline([1]), *stored)).to_pylist()
    assert sorted(paths) == sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*.bin"))
    assert len(paths_of(open_store(tmp_path), vectors(None, inline([1])))) == 0
    for broken in ({"storageType": "x"}, {"pathOrInlineDv": "short"}, {"pathOrInlineDv": None}):
        with pytest.raises(LogCorruptedError):
            paths_of(open_store(tmp_path), vectors({**stored[0], **broken}))


@pytest.mark.parametrize("prefix", ["", "ab", "a b%20c", "deep/er"])
def test_reads_each_of_the_vectors_in_a_file(tmp_path: Path, prefix: str) -> None:
    rows = [[0, 5, 70_000, 2**33], [], list(range(100_000))]
    for descriptor, positions in zip(in_file(tmp_path, *rows, prefix=prefix), rows, strict=True):
        assert list(load(open_store(tmp_path), descriptor)) == positions


def test_reads_a_vector_at_an_absolute_path(tmp_path: Path) -> None:
    (descriptor,) = in_file(tmp_path, [1, 2], absolute=True)
    assert descriptor["pathOrInlineDv"].startswith("file:///")
    assert list(load(open_store(tmp_path), descriptor)) == [1, 2]


def test_refuses_to_leave_the_table(tmp_path: Path) -> None:
    table, beside = tmp_path / "table", tmp_path / "beside"
    table.mkdir()
    (by_path,) = in_file(beside, [1], absolute=True)
    (by_name,) = in_file(beside, [1])
    climbing = {**by_name, "pathOrInlineDv": "../beside/" + by_name["pathOrInlineDv"]}
    for descriptor in (by_path, climbing, {**climbing, "pathOrInlineDv": "%2e%2e/x" + by_name["pathOrInlineDv"]}):
        with pytest.raises((PathOutsideTableError, ObjectNotFoundError)) as caught:
            load(open_store(table), descriptor)
        assert caught.type is PathOutsideTableError or "%2e" in descriptor["pathOrInlineDv"]


def test_names_a_missing_file(tmp_path: Path) -> None:
    (descriptor,) = in_file(tmp_path, [1])
    (file,) = tmp_path.glob("*.bin")
    file.unlink()
    with pytest.raises(ObjectNotFoundError, match=file.name):
        load(open_store(tmp_path), descriptor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cardinality": 4}, "3 rows; expected the cardinality, 4"),
        ({"cardinality": None}, "cardinality is None"),
        ({"cardinality": -1}, "cardinality"),
        ({"sizeInBytes": 20}, "expected sizeInBytes, 20"),
        ({"sizeInBytes": 2**31 - 1}, "more than any vector of 3"),
        ({"sizeInBytes": 2**31 - 1, "cardinality": 2**40}, "too few"),
        ({"sizeInBytes": -5}, "sizeInBytes"),
        ({"sizeInBytes": None}, "sizeInBytes"),
        ({"offset": 0}, "offset is 0"),
        ({"offset": 2}, "bytes"),
        ({"offset": 10**9}, "too few"),
        ({"offset": -1}, "offset"),
        ({"storageType": "x"}, "storageType is 'x'"),
        ({"storageType": None}, "storageType is None"),
        ({"storageType": "i"}, "sizeInBytes|Z85"),
        ({"pathOrInlineDv": "short"}, "shorter than a UUID"),
        ({"pathOrInlineDv": " " * 20}, "are not Z85"),
        ({"pathOrInlineDv": "é" * 20}, "that are not Z85"),
        ({"pathOrInlineDv": "#" * 20}, "exceeds 4 bytes"),
        ({"pathOrInlineDv": None}, "pathOrInlineDv is None"),
    ],
)
def test_refuses_a_descriptor_that_does_not_fit(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (descriptor,) = in_file(tmp_path, [1, 2, 3])
    with pytest.raises(LogCorruptedError, match=message) as caught:
        load(open_store(tmp_path), {**descriptor, **change})
    assert caught.value.hint is not None
    assert caught.value.table == str(tmp_path)


def test_refuses_every_changed_byte_of_a_file(tmp_path: Path) -> None:
    (descriptor,) = in_file(tmp_path, [1, 2, 3])
    (file,) = tmp_path.glob("*.bin")
    sound = file.read_bytes()
    for position in range(len(sound)):
        file.write_bytes(sound[:position] + bytes([sound[position] ^ 0x41]) + sound[position + 1 :])
        with pytest.raises(LogCorruptedError, match=file.name):
            load(open_store(tmp_path), descriptor)
    for length in range(len(sound)):
        file.write_bytes(sound[:length])
        with pytest.raises(LogCorruptedError, match=file.name):
            load(open_store(tmp_path), descriptor)


@given(st.integers(0, 200), st.binary(min_size=1, max_size=8))
def test_never_fails_otherwise_on_a_bitmap_with_a_true_checksum(
    tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes
) -> None:
    root = tmp_path_factory.mktemp("noise")
    data = bytearray(vector_data([*range(10), 70_000, *range(200_000, 205_000), 2**34]))
    at %= len(data)
    data[at : at + len(noise)] = noise
    name = uuid.uuid4()
    (root / f"deletion_vector_{name}.bin").write_bytes(
        b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    )
    descriptor = {
        "storageType": "u",
        "pathOrInlineDv": z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": 5012,
    }
    try:
        count = len(load(open_store(root), descriptor))
    except LogCorruptedError as error:
        count = 5012 if str(name) in str(error) else 0
    assert count == 5012


@given(st.sets(st.integers(0, 300)), st.integers(0, 300), st.integers(0, 200))
def test_keeps_the_rows_of_a_window_that_are_not_deleted(deleted: set[int], start: int, count: int) -> None:
    mask = live_row_mask(BitMap64(deleted), start, count).to_pylist()
    assert mask == [position not in deleted for position in range(start, start + count)]


def test_inline_vectors_of_every_length_come_back(tmp_path: Path) -> None:
    for count in (0, 1, 2, 3, 4, 5, 100):
        descriptor = json.loads(json.dumps(inline(range(count))))
        assert list(load(open_store(tmp_path), descriptor)) == list(range(count))
        with pytest.raises(LogCorruptedError, match="inline"):
            load(open_store(tmp_path), {**descriptor, "sizeInBytes": descriptor["sizeInBytes"] + 4})
