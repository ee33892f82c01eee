"""The file system of a table beside that of deltalake."""

from __future__ import annotations

import importlib
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import lakehouse_lib
import lakehouse_lib.fs


class TestStorageHandler:
    def test_files_and_folders(self, tmp_path: Path) -> None:
        results = []
        for package in ("deltalake", "lakehouse_lib"):
            root = tmp_path / package
            root.mkdir()
            handler = importlib.import_module(f"{package}.fs").DeltaStorageHandler(str(root))
            files = pyarrow.fs.PyFileSystem(handler)
            rows = pa.table({"a": range(10), "c": [1, 2] * 5})
            hive = pads.partitioning(pa.schema([("c", pa.int64())]), flavor="hive")
            pads.write_dataset(rows, "/x", partitioning=hive, format="parquet", filesystem=files)
            pq.write_table(rows, "t.parquet", filesystem=files)
            selected = [
                sorted((info.path.strip("/"), info.type) for info in files.get_file_info(selector))
                for selector in (pyarrow.fs.FileSelector("/x", recursive=True), pyarrow.fs.FileSelector("/"))
            ]
            read = pads.dataset("/x", filesystem=files, partitioning=hive).to_table().sort_by("a")
            with pytest.raises(FileNotFoundError):
                files.open_input_file("none")
            with pytest.raises(NotImplementedError):
                handler.open_append_stream("t.parquet", {})
            files.delete_file("t.parquet")
            results.append([selected, read, [info.type for info in files.get_file_info(["t.parquet", "x", "x/c=1"])]])
        assert results[0] == results[1]

    def test_the_log_is_not_written(self, tmp_path: Path) -> None:
        root = str(tmp_path)
        lakehouse_lib.write_deltalake(root, pa.table({"id": [1]}))
        files = pyarrow.fs.PyFileSystem(lakehouse_lib.fs.DeltaStorageHandler.from_table(lakehouse_lib.DeltaTable(root)))
        for act in (
            lambda: files.delete_dir("_delta_log"),
            lambda: files.delete_dir_contents("/", accept_root_dir=True),
            lambda: files.delete_file("/_delta_log/00000000000000000000.json"),
            lambda: files.move("_delta_log/00000000000000000000.json", "x"),
            lambda: files.open_output_stream("_delta_log/x"),
        ):
            with pytest.raises(lakehouse_lib.InvalidArgumentError, match="outside of _delta_log"):
                act()
        for path in (".", "./_delta_log", "x/../_delta_log", "x//y"):
            with pytest.raises(lakehouse_lib.InvalidArgumentError, match="without empty parts"):
                files.delete_dir(path)
        assert lakehouse_lib.DeltaTable(root).version() == 0

    def test_a_file_that_is_copied_or_moved_onto_itself_is_kept(self, tmp_path: Path) -> None:
        for package in ("deltalake", "lakehouse_lib"):
            (tmp_path / "f").write_bytes(b"rows")
            files = pyarrow.fs.PyFileSystem(importlib.import_module(f"{package}.fs").DeltaStorageHandler(str(tmp_path)))
            files.move("f", "f")
            assert (tmp_path / "f").read_bytes() == b"rows"
        files.copy_file("f", "/f")
        with pytest.raises(lakehouse_lib.InvalidArgumentError, match="without empty parts"):
            files.copy_file("./f", "f")
        assert (tmp_path / "f").read_bytes() == b"rows"

    def test_a_copy_that_fails_leaves_no_part_of_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        handler = lakehouse_lib.fs.DeltaStorageHandler(str(tmp_path))
        (tmp_path / "f").write_bytes(b"rows")

        class TornFile(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                if self.tell():
                    raise OSError("the store failed")
                return super().read(2)

        monkeypatch.setattr(handler, "open_input_file", lambda _: TornFile(b"rows"))
        for act in (handler.copy_file, handler.move):
            with pytest.raises(OSError, match="the store failed"):
                act("f", "copy")
            assert [path.name for path in tmp_path.iterdir()] == ["f"]
