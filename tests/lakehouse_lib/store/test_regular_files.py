"""Anything but a regular file is refused at once, in place of every kind of file."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakehouse_lib
from lakehouse_lib.errors import ObjectNotFoundError, StoreError
from lakehouse_lib.store import LocalStore
from lakehouse_lib.store.regular_files import NotARegularFileError, open_arrow, open_regular, read_regular


def _socket(path: Path) -> None:
    # A socket's path may have only about a hundred characters.
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(path.parent, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


KINDS: dict[str, Callable[[Path], None]] = {
    "FIFO": os.mkfifo,
    "folder": Path.mkdir,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
}

READ = """
import sys
from lakehouse_lib import DeltaTable
from lakehouse_lib.errors import DeltaError
try:
    DeltaTable(sys.argv[1]).to_pyarrow_table()
except DeltaError as error:
    print(type(error).__name__, error)
"""


def run(table: Path) -> str:
    done = subprocess.run([sys.executable, "-c", READ, str(table)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_every_read_of_a_special_file_names_its_kind(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "x")
    store = LocalStore(str(tmp_path))
    for read in (store.read, store.open_input):
        with pytest.raises(StoreError, match=rf"x: it is a {kind}; expected a regular file") as refused:
            read("x")
        assert "put the regular file in its place" in str(refused.value)
    with pytest.raises(StoreError, match=kind):
        store.put_if_match("x", b"new", b"old")


@pytest.mark.parametrize("place", ["part", "commit"])
def test_a_fifo_in_place_of_a_file_does_not_block_readers(tmp_path: Path, place: str) -> None:
    lakehouse_lib.write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    pattern = "part-*.parquet" if place == "part" else "_delta_log/*.json"
    (file,) = (tmp_path / "t").glob(pattern)
    file.unlink()
    os.mkfifo(file)
    assert "it is a FIFO; expected a regular file" in run(tmp_path / "t")


def test_a_read_of_a_regular_file_leaves_no_descriptor_open(tmp_path: Path) -> None:
    for data in (b"", b"x", bytes(range(256)) * 4096):
        (tmp_path / "x").write_bytes(data)
        before = len(list(Path("/proc/self/fd").iterdir()))
        assert read_regular(tmp_path / "x") == data
        with open_arrow(tmp_path / "x") as source:
            assert (source.size(), source.read(), source.read_at(3, 1)) == (len(data), data, data[1:4])
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_link_is_followed_unless_it_is_forbidden(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    assert read_regular(tmp_path / "link") == b"x"
    with pytest.raises(NotARegularFileError, match="a symbolic link"):
        open_regular(tmp_path / "link", follow_links=False)


def test_a_missing_file_is_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_arrow(tmp_path / "x")
    with pytest.raises(ObjectNotFoundError):
        LocalStore(str(tmp_path)).open_input("x")
