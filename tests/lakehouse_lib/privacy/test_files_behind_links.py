"""A proof covers every file of the table: behind links, under any name, in other folders.

pyarrow opens the real files to find where the row still is.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import RetentionError
from lakehouse_lib.privacy.key_texts import KeyTexts, spellings
from lakehouse_lib.privacy.purge import PurgeResult, prove, purge
from lakehouse_lib.store import LocalStore
from tests.deletion_vector_bytes import delete_by_vector, in_file
from tests.slow_cases import some_slow

IS_1 = "id = 1"
NOW = timedelta(0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"p": ["a", "a", "b"], "id": [1, 2, 3]}), partition_by=["p"])
    return root


def mark_first_row(root: Path) -> None:
    """Hide the first row of the table's only file by a deletion vector in its own file."""
    (path,) = DeltaTable(root).snapshot.files["path"].to_pylist()
    (vector,) = in_file(root, [0])
    delete_by_vector(root, {path: vector})


def purged(root: Path, **options: dict[str, str]) -> PurgeResult:
    DeltaTable(root, **options).delete(IS_1)
    return purge(str(root), IS_1, writer_grace=NOW, **options)


def holding_1(folder: Path) -> set[Path]:
    """The regular files below the folder, under any name, that have the row."""
    files = set()
    for file in folder.rglob("*"):
        if stat.S_ISREG(file.lstat().st_mode) and file.read_bytes()[:4] == b"PAR1":
            columns = pq.ParquetFile(file)
            if "id" in columns.schema_arrow.names and 1 in columns.read(columns=["id"])["id"].to_pylist():
                files.add(file)
    return files


def moved_folder(root: Path, place: Path) -> str:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(root / "p=a", place)
    return str(place)


def folder_outside(root: Path) -> str:
    (root / "p=a").symlink_to(moved_folder(root, root.with_name("disk") / "a"))
    return "p=a"


def folder_inside(root: Path) -> str:
    moved_folder(root, root / "stored" / "a")
    (root / "p=a").symlink_to("stored/a")
    return "p=a"


def link_to_a_link(root: Path) -> str:
    moved_folder(root, root.with_name("disk") / "a")
    root.with_name("disk").joinpath("again").symlink_to("a")
    (root / "p=a").symlink_to(root.with_name("disk") / "again")
    return "p=a"


def file_outside(root: Path) -> str:
    (file,) = (root / "p=a").iterdir()
    shutil.move(file, root.with_name("x.parquet"))
    file.symlink_to(root.with_name("x.parquet"))
    return f"p=a/{file.name}"


def file_inside(root: Path) -> str:
    (file,) = (root / "p=a").iterdir()
    (root / "stored").mkdir()
    shutil.move(file, root / "stored" / "x")
    file.symlink_to("../stored/x")
    return f"p=a/{file.name}"


LINKS = [folder_outside, folder_inside, link_to_a_link, file_outside, file_inside]


@pytest.mark.parametrize("linked", LINKS)
def test_a_row_behind_a_link_is_counted_and_the_link_is_named(table: Path, linked: Callable[[Path], str]) -> None:
    link = linked(table)
    proof = prove(str(table), IS_1)
    assert (proof.rows >= 1, proof.clean) == (True, False)
    assert "a symbolic link to" in proof.unreadable[link]
    assert "replace the link by the file or folder itself" in proof.unreadable[link]


@pytest.mark.parametrize("linked", LINKS)
def test_a_purge_reports_only_deleted_files(table: Path, linked: Callable[[Path], str]) -> None:
    link = linked(table)
    before = holding_1(table.parent)
    report = purged(table)
    left = holding_1(table.parent)
    assert {table / path for path in report.files} == before - left
    assert link in report.unreadable
    assert not prove(str(table), IS_1).clean
    if "inside" in linked.__name__:
        assert not left
    else:
        assert len(left) == 1
        assert sum(report.out_of_reach.values()) == 1
    assert DeltaTable(table).to_pyarrow_table()["id"].to_pylist() in ([2, 3], [3, 2])


@pytest.mark.parametrize("linked", LINKS)
def test_a_folder_that_replaces_its_link_can_be_proven_clean(table: Path, linked: Callable[[Path], str]) -> None:
    link = table / linked(table)
    purged(table)
    end = link.resolve()
    link.unlink()
    if end.exists():
        shutil.move(end, link)
    purge(str(table), IS_1, writer_grace=NOW)
    assert prove(str(table), IS_1).clean
    assert holding_1(table) == set()


def test_files_behind_an_unknown_link_are_unreadable(table: Path, tmp_path: Path) -> None:
    purged(table)
    (tmp_path / "backup").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "backup" / "x.parquet")
    assert prove(str(table), IS_1).clean
    (table / "old").symlink_to(tmp_path / "backup")
    assert list(prove(str(table), IS_1).unreadable) == ["old"]
    assert list(purge(str(table), IS_1).unreadable) == ["old"]


NAMES = ["data.bin", "data.json", "data.crc", ".data.crc", "data", "_x/data.JSON", "x=1/data.tmp", "data.parquet.bak"]


@pytest.mark.parametrize("name", NAMES)
def test_a_data_file_of_the_log_may_have_any_name(tmp_path: Path, name: str) -> None:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"id": [1, 2]}))
    (part,) = root.glob("*.parquet")
    (root / name).parent.mkdir(exist_ok=True)
    part.rename(root / name)
    log = root / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace(part.name, name))
    assert (prove(str(root), IS_1).rows, DeltaTable(root).count()) == (1, 2)
    assert purged(root).files == (name,)
    assert holding_1(root) == set()
    assert prove(str(root), IS_1).clean


STRAYS = [
    *NAMES,
    "_ingest/erp/00000000000000000001.json",
    f"_delta_log/{7:020d}.copy.parquet",
    "_delta_log/_sidecars/0d9f2b8e-3a1c-4b5d-8e6f-7a8b9c0d1e2f.parquet",
    "_delta_log/copy",
    "_delta_log/.crc",
    "deletion_vector_0d9f2b8e-3a1c-4b5d-8e6f-7a8b9c0d1e2f.bin",
]


@pytest.mark.parametrize("name", some_slow([*STRAYS], 5))
def test_a_copy_is_found_by_its_content_under_any_name(table: Path, name: str) -> None:
    purged(table)
    (table / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [1]}), table / name)
    assert dict(prove(str(table), IS_1).matches) == {name: 1}
    assert purge(str(table), IS_1, writer_grace=NOW).files == (name,)
    assert prove(str(table), IS_1).clean
    assert DeltaTable(table).count() == 2


def test_files_of_the_log_are_not_data_files(tmp_path: Path) -> None:
    """Checkpoints, sidecars and vectors have no row of the person, even if the condition is true for nulls."""
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"id": [1, 2, 3]}), configuration={"delta.checkpointPolicy": "v2"})
    write_deltalake(root, pa.table({"id": [4, 5, 6]}), mode="append")
    DeltaTable(root).create_checkpoint()
    assert list((root / "_delta_log" / "_sidecars").iterdir())
    proof = prove(str(root), "id IS NULL")
    assert (proof.files, proof.rows, dict(proof.skipped), dict(proof.unreadable)) == (2, 0, {}, {})


def test_the_first_bytes_of_files_that_the_log_knows_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"id": [1, 2, 3]}))
    mark_first_row(root)
    (vector,) = root.glob("*.bin")
    opened: list[str] = []
    real = LocalStore.open_input

    def noted(self: LocalStore, path: str) -> pa.NativeFile:
        opened.append(path)
        return real(self, path)

    monkeypatch.setattr(LocalStore, "open_input", noted)
    assert prove(str(root), IS_1).rows == 1
    assert len([path for path in opened if path.endswith(".parquet")]) == 1
    assert vector.name not in opened


def test_files_that_cannot_be_opened_are_unreadable(table: Path) -> None:
    purged(table)
    os.mkfifo(table / "pipe.parquet")
    (table / "encrypted").write_bytes(b"PARE....PARE")
    proof = prove(str(table), IS_1)
    assert set(proof.unreadable) == {"pipe.parquet", "encrypted"}
    assert "FIFO" in proof.unreadable["pipe.parquet"]


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Path, Path]:
    """A shallow clone and its source. The clone's log has absolute paths of the source's files."""
    source, root = tmp_path / "source", tmp_path / "clone"
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    write_deltalake(source, pa.table({"id": [1, 2]}), configuration=properties)
    write_deltalake(source, pa.table({"id": [3]}), mode="append")
    shutil.copytree(source / "_delta_log", root / "_delta_log")
    for commit in (root / "_delta_log").glob("*.json"):
        commit.write_text(commit.read_text().replace('"path":"part', f'"path":"{source.as_uri()}/part'))
    for checksum in (root / "_delta_log").glob("*.crc"):
        checksum.unlink()
    return source, root


def test_a_clone_s_files_in_another_folder_are_counted_and_never_deleted(clone: tuple[Path, Path]) -> None:
    source, root = clone
    options = {"storage_options": {"allowed_roots": str(source)}}
    assert prove(str(root), IS_1, **options).rows == 1
    report = purged(root, **options)
    (of_source,) = holding_1(source)
    assert (report.files, dict(report.out_of_reach)) == ((), {str(of_source): 1})
    assert dict(prove(str(root), IS_1, **options).matches) == {str(of_source): 1}
    purged(source)
    assert prove(str(root), IS_1, **options).clean


def test_files_of_a_clone_that_cannot_be_read_prevent_a_proof(clone: tuple[Path, Path]) -> None:
    _, root = clone
    proof = prove(str(root), IS_1)
    assert (proof.clean, len(proof.unreadable)) == (False, 2)
    assert all("allowed_roots" in why for why in proof.unreadable.values())


def test_a_file_that_only_an_old_version_of_the_log_names_is_counted(clone: tuple[Path, Path]) -> None:
    """The checkpoint no longer has the remove, but the log still has the earlier version."""
    source, root = clone
    options = {"storage_options": {"allowed_roots": str(source)}}
    table = DeltaTable(root, **options)
    table.delete(IS_1)
    # The disk's clock ticks every few ms, so the commit's time may be before the time of its tombstone.
    later = time.time() + 1
    os.utime(root / "_delta_log" / f"{table.version():020}.json", (later, later))
    table.create_checkpoint()
    table = DeltaTable(root, **options)
    assert len(table.snapshot.tombstones) == 0
    assert DeltaTable(root, version=1, **options).count() == 3
    assert prove(str(root), IS_1, **options).rows == 1


def test_hidden_rows_behind_a_link_prevent_a_purge(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"p": ["a", "a"], "id": [1, 2]}), partition_by=["p"])
    mark_first_row(root)
    folder_outside(root)
    with pytest.raises(RetentionError, match="hidden by deletion vectors"):
        purge(str(root), IS_1, writer_grace=NOW)


def test_a_deleted_file_with_a_second_name_is_reported(table: Path, tmp_path: Path) -> None:
    (file,) = (table / "p=a").iterdir()
    os.link(file, tmp_path / "backup.parquet")
    report = purged(table)
    assert report.files == report.hard_linked == (f"p=a/{file.name}",)
    assert (tmp_path / "backup.parquet").exists()


def test_spellings_of_a_key_are_found_behind_links(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"p": ["a", "b"], "key": ["0007", "8"]}), partition_by=["p"])
    folder_outside(root)
    write_deltalake(root, pa.table({"p": ["b"], "key": ["8"]}), mode="overwrite")
    keys = KeyTexts.of([7], [pa.int64()])
    assert spellings(DeltaTable(root).snapshot, "key", keys, ArrowEngine()) == {"0007"}
