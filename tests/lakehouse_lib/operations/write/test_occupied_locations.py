"""A table cannot be created at the location of a file or a broken link; the error says what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import StoreError

_ROWS = pa.table({"a": [1]})


def _occupy(folder: Path) -> None:
    (folder / "file").write_text("mine")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "to a file").symlink_to(folder / "file")
    (folder / "loop").symlink_to("loop")


_PLACES = {
    "file": r"/file is a file; expected a folder",
    "dangling": r"/dangling is a link to '.*/nowhere', which is not a folder",
    "to a file": r"/to a file is a link to '.*/file', which is not a folder",
    "loop": r"/loop is a link to 'loop', which is not a folder",
    "file/below": r"/file is a file; expected a folder",
    "dangling/below": r"/dangling is a link to '.*/nowhere', which is not a folder",
}


def _contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else "" for path in folder.rglob("*")}


@pytest.mark.parametrize("place", _PLACES)
def test_an_occupied_location_is_refused(tmp_path: Path, place: str) -> None:
    _occupy(tmp_path)
    before = _contents(tmp_path)
    attempts = (
        lambda: write_deltalake(tmp_path / place, _ROWS),
        lambda: write_deltalake(tmp_path / place, _ROWS, mode="append"),
        lambda: DeltaTable.create(tmp_path / place, _ROWS.schema),
    )
    for attempt in attempts:
        with pytest.raises(StoreError, match=_PLACES[place]) as raised:
            attempt()
        assert re.search("Choose another location", str(raised.value))
    assert _contents(tmp_path) == before


def test_on_both_engines(tmp_path: Path, engine) -> None:
    _occupy(tmp_path)
    before = _contents(tmp_path)
    for place in ("file", "dangling", "file/below"):
        with pytest.raises(StoreError, match=_PLACES[place]):
            write_deltalake(tmp_path / place, _ROWS, engine=engine)
    assert _contents(tmp_path) == before


def test_a_file_in_the_place_of_a_partition(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"p": ["a"], "x": [1]}), partition_by="p")
    (tmp_path / "t" / "p=b").write_text("mine")
    with pytest.raises(StoreError, match=r"/t/p=b is a file; expected a folder"):
        write_deltalake(tmp_path / "t", pa.table({"p": ["b"], "x": [2]}), mode="append")
    assert DeltaTable(tmp_path / "t").version() == 0


def test_a_link_to_a_folder_is_a_location(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    write_deltalake(tmp_path / "link", _ROWS)
    assert DeltaTable(tmp_path / "folder").count() == 1
