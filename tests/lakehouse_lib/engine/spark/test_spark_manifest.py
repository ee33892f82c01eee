"""The list of files that Spark scans: complete, readable in every folder, and independent of the session's settings."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, InvalidArgumentError, write_deltalake
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.engine.spark.read import manifest


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files with an unusual name."""
    folder = tmp_path / "tem p {é}%20#*"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    manifest._scratch.cache_clear()
    yield folder
    manifest._scratch.cache_clear()


def test_the_list_is_found_in_a_folder_of_any_name(tmp_path: Path, spark: Any, scratch: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": [1, 2]}))
    assert DeltaTable(tmp_path / "t").to_spark(spark).count() == 2
    assert list(scratch.rglob("_spark_metadata/0"))


def test_a_list_that_two_threads_write_is_always_complete(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": [1, 2]}))
    snapshot = DeltaTable(tmp_path / "t").snapshot
    written = Path.write_bytes
    attempts: list[Path] = []
    others: list[str] = []

    def write_bytes(path: Path, data: bytes) -> int:
        """Write half of the list; then another process writes all of it, and it is read."""
        attempts.append(path)
        if len(attempts) > 1:
            return written(path, data)
        written(path, data[: len(data) // 2])
        others.append(manifest.manifest(snapshot.files, snapshot.store))
        content = Path(others[0].removeprefix("file:"), "_spark_metadata", "0").read_bytes()
        assert content == data
        with path.open("ab") as rest:
            return rest.write(data[len(data) // 2 :])

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    assert [manifest.manifest(snapshot.files, snapshot.store)] == others


def test_a_session_that_would_ignore_the_list_is_refused(tmp_path: Path, spark: Any) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1, 2]}))
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.fileStreamSink.ignoreMetadata", "true")
    with pytest.raises(InvalidArgumentError, match=f"ignoreMetadata is true.*{tmp_path}"):
        DeltaTable(tmp_path).to_spark(session)
    assert DeltaTable(tmp_path, engine=SparkEngine(session)).optimize.compact()["totalConsideredFiles"] == 1
    assert DeltaTable(tmp_path).to_spark(spark).count() == 2
