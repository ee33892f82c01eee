"""A change with an application transaction is made once: a retry after a lost answer changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, CommitProperties, DeltaTable, Transaction, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import CommitUnknownError, ConcurrentTransactionError, StoreError
from lakehouse_lib.expressions import parse
from lakehouse_lib.log import file_names
from lakehouse_lib.operations.dml.delete import delete as delete_rows
from lakehouse_lib.operations.results import EarlierChangeResult
from lakehouse_lib.table import delta_table
from lakehouse_lib.transaction import put_commit
from lakehouse_lib.transaction.commit_properties import single_commit
from tests.fault_store import FaultStore, each

APPLICATION = "airflow:upkeep:manual__1:t:-1"
ONCE = single_commit(APPLICATION)


def update(table: DeltaTable, properties: CommitProperties | None = ONCE) -> dict[str, Any]:
    return table.update({"v": "v + 1"}, predicate="id < 3", commit_properties=properties)


def delete(table: DeltaTable, properties: CommitProperties | None = ONCE) -> dict[str, Any]:
    return table.delete("v = 2", commit_properties=properties)


def merge(table: DeltaTable, properties: CommitProperties | None = ONCE) -> dict[str, Any]:
    source = pa.table({"id": [1, 9], "v": [5, 9], "w": ["a", "b"]})
    merger = table.merge(
        source, "t.id = s.id", source_alias="s", target_alias="t", merge_schema=True, commit_properties=properties
    )
    return merger.when_matched_update({"v": "t.v + s.v", "w": "s.w"}).when_not_matched_insert_all().execute()


Verb = Callable[..., dict[str, Any]]
of_each_verb = pytest.mark.parametrize(
    ("verb", "count", "rows"),
    [(update, "num_updated_rows", 2), (delete, "num_deleted_rows", 1), (merge, "num_target_rows_inserted", 1)],
    ids=["update", "delete", "merge"],
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_commit, "_ATTEMPTS", 2)
    monkeypatch.setattr(put_commit.time, "sleep", lambda _: None)


@contextmanager
def opened_by(store: FaultStore) -> Iterator[None]:
    """Tables are opened through this store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta_table, "open_store", lambda *_: store)
        yield


def start(path: Path, **properties: str) -> None:
    write_deltalake(path, pa.table({"id": [1, 2, 3], "v": [1, 2, 3]}), configuration=properties)


def lose_first_commit(name: str) -> None:
    if name == file_names.commit(1):
        raise StoreError("connection reset")


def lost(path: Path) -> FaultStore:
    """A store that puts version 1, loses the answer, and does not answer afterwards. It can be pickled."""
    return FaultStore(path, before={"read": lose_first_commit}, after={"put_if_absent": lose_first_commit})


def data_files(path: Path) -> set[str]:
    return {file.name for file in path.glob("*.parquet")}


@of_each_verb
def test_a_retry_after_a_lost_answer(tmp_path: Path, engine: Engine, verb: Verb, count: str, rows: int) -> None:
    start(tmp_path)
    with opened_by(lost(tmp_path)), pytest.raises(CommitUnknownError):
        verb(DeltaTable(tmp_path, engine=engine))
    write_deltalake(tmp_path, pa.table({"id": [1], "v": [2]}), mode="append")  # a further try would change this row
    files = data_files(tmp_path)

    table = DeltaTable(tmp_path, engine=engine)
    result = verb(table)
    assert (result["version"], result[count]) == (1, rows)
    assert (DeltaTable(tmp_path).version(), data_files(tmp_path)) == (2, files)
    assert table.version() == 2
    assert deltalake.DeltaTable(tmp_path).transaction_version(APPLICATION) == 1

    later = verb(table, single_commit("airflow:upkeep:manual__2:t:-1"))
    assert later["version"] == 3


@of_each_verb
@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["copies", "vectors"])
def test_a_running_try_commits_first(
    tmp_path: Path, verb: Verb, count: str, rows: int, properties: dict[str, str]
) -> None:
    """A task was declared dead, but its job goes on and commits while the retry is at work."""
    start(tmp_path, **properties)
    race = FaultStore(tmp_path, before={"put_if_absent": each(lambda: verb(DeltaTable(tmp_path)))})
    with opened_by(race):
        retry = DeltaTable(tmp_path)
    result = verb(retry)
    assert (result["version"], result[count]) == (1, rows)
    assert retry.version() == 1
    DeltaTable(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert verb(retry)["version"] == 1


def test_the_result_of_the_retry(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    start(tmp_path)
    snapshot = DeltaTable(tmp_path).snapshot
    predicate = parse("id = 1", snapshot.schema, table="t")
    first = delete_rows(snapshot, predicate, ArrowEngine(), commit_properties=ONCE)
    second = delete_rows(snapshot.update(), predicate, ArrowEngine(), commit_properties=ONCE)
    assert isinstance(second, EarlierChangeResult)
    assert second.to_dict() == {**first.to_dict(), "done_before": True}
    assert f"already has version 1 of the application {APPLICATION!r}, committed in version 1" in caplog.text


def test_the_commit_is_no_longer_in_the_log(tmp_path: Path) -> None:
    start(tmp_path)
    update(DeltaTable(tmp_path))
    DeltaTable(tmp_path).create_checkpoint()
    write_deltalake(tmp_path, pa.table({"id": [1], "v": [2]}), mode="append")
    for version in (0, 1):
        (tmp_path / file_names.commit(version)).unlink()
    result = update(DeltaTable(tmp_path))
    assert (result["version"], result["num_updated_rows"], result["num_added_files"]) == (2, 0, 0)
    assert DeltaTable(tmp_path).version() == 2


def test_only_some_of_the_transactions_are_committed(tmp_path: Path) -> None:
    start(tmp_path)
    update(DeltaTable(tmp_path))
    both = CommitProperties(app_transactions=[Transaction(APPLICATION, 1), Transaction("other", 1)])
    files = data_files(tmp_path)
    with pytest.raises(ConcurrentTransactionError):
        update(DeltaTable(tmp_path), both)
    assert (DeltaTable(tmp_path).version(), data_files(tmp_path)) == (1, files)


def test_a_version_of_the_application_that_was_passed(tmp_path: Path) -> None:
    """The application has later versions; the commit of each one is found."""
    start(tmp_path)
    for version in (5, 7):
        update(DeltaTable(tmp_path), CommitProperties(app_transactions=[Transaction("queue", version)]))
    for version, commit in ((5, 1), (7, 2), (6, 2)):
        once = CommitProperties(app_transactions=[Transaction("queue", version)])
        assert update(DeltaTable(tmp_path), once)["version"] == commit
    assert DeltaTable(tmp_path).version() == 2


def test_a_committed_overwrite_by_predicate_is_refused_before_it_writes(tmp_path: Path) -> None:
    start(tmp_path)
    rows = pa.table({"id": [1], "v": [7]})
    options: dict[str, Any] = {"mode": "overwrite", "predicate": "id = 1", "commit_properties": ONCE}
    write_deltalake(tmp_path, rows, **options)
    files = data_files(tmp_path)
    with pytest.raises(ConcurrentTransactionError, match="already has txn version 1"):
        write_deltalake(tmp_path, rows, **options)
    assert data_files(tmp_path) == files
