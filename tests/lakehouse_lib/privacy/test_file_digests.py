"""Digests of files, computed before a purge deletes the files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse_lib import DeltaTable
from lakehouse_lib.privacy.file_digests import FileDigest, file_digests
from lakehouse_lib.privacy.purge import purge
from lakehouse_lib.store import open_store


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**20 + 1, 5_000_000])
def test_a_digest_is_that_of_the_content(tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    (tmp_path / "a b=c").mkdir()
    (tmp_path / "a b=c" / "x").write_bytes(content[:size])
    (digest,) = file_digests(open_store(tmp_path), ["a b=c/x", "gone"])
    assert digest == FileDigest("a b=c/x", size, hashlib.sha256(content[:size]).hexdigest())


@pytest.fixture
def deleted(tmp_path: Path) -> Path:
    """A table with one file that a purge of ``n = 1`` deletes."""
    write_deltalake(tmp_path, pa.table({"n": [1, 2]}))
    DeltaTable(tmp_path).delete("n = 1")
    return tmp_path


def test_a_purge_records_files_before_it_deletes_them(deleted: Path) -> None:
    calls: list[tuple[Sequence[str], list[bool]]] = []
    report = purge(
        str(deleted),
        "n = 1",
        before_delete=lambda paths: calls.append((paths, [(deleted / path).exists() for path in paths])),
    )
    assert calls == [(list(report.files), [True])]
    assert not (deleted / report.files[0]).exists()


def test_no_file_is_deleted_if_the_record_fails(deleted: Path) -> None:
    def fail(paths: Sequence[str]) -> None:
        raise RuntimeError("no ledger")

    before = set(deleted.rglob("*.parquet"))
    with pytest.raises(RuntimeError, match="no ledger"):
        purge(str(deleted), "n = 1", before_delete=fail)
    assert set(deleted.rglob("*.parquet")) == before
    assert purge(str(deleted), "n = 1", dry_run=True, before_delete=fail).files
    assert purge(str(deleted), "n = 2.5 OR n = 7", before_delete=fail).files == ()
