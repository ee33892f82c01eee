"""Many small requests: in threads for a remote store, one after the other for a disk."""

import threading
import time

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.change_data import CommitRange, change_feed
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.history import commit_times
from lakehouse_lib.log.segment import list_commits
from lakehouse_lib.store import LocalStore
from lakehouse_lib.store.concurrent import map_requests, map_requests_ahead


@pytest.mark.parametrize(("is_remote", "threads"), [(False, 1), (True, 16)])
def test_answers_come_in_order_from_the_given_number_of_threads(tmp_path, monkeypatch, is_remote, threads):
    monkeypatch.setattr(LocalStore, "is_remote", is_remote)
    met = threading.Barrier(threads)
    thread_ids = []

    def ask(item):
        thread_ids.append(threading.get_ident())
        met.wait(30)  # no thread continues before so many have arrived
        return item * 2

    assert map_requests(LocalStore(str(tmp_path)), ask, range(32)) == list(range(0, 64, 2))
    assert len(set(thread_ids)) == threads


@pytest.mark.parametrize("is_remote", [False, True])
def test_the_first_error_is_raised(tmp_path, monkeypatch, is_remote):
    monkeypatch.setattr(LocalStore, "is_remote", is_remote)

    def ask(item):
        if item >= 3:
            raise ValueError(f"item {item}")
        return item

    with pytest.raises(ValueError, match="item 3"):
        map_requests(LocalStore(str(tmp_path)), ask, range(10))
    assert map_requests(LocalStore(str(tmp_path)), ask, []) == []


@pytest.mark.parametrize(("is_remote", "begun"), [(False, 1), (True, 17)])
def test_few_answers_wait_for_a_slow_caller(tmp_path, monkeypatch, is_remote, begun):
    monkeypatch.setattr(LocalStore, "is_remote", is_remote)
    requests = []
    answers = map_requests_ahead(LocalStore(str(tmp_path)), lambda item: requests.append(item) or item, range(100))
    assert next(answers) == 0
    assert len(requests) <= begun
    assert list(answers) == list(range(1, 100))


def test_the_log_of_a_remote_table_is_read_in_threads(tmp_path, monkeypatch):
    """The history, commit times and the change data feed. Before, each commit was a request of its own in turn."""
    properties = {"delta.enableInCommitTimestamps": "true", "delta.enableChangeDataFeed": "true"}
    for number in range(8):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append", configuration=properties)
    monkeypatch.setattr(LocalStore, "is_remote", True)
    threads = set()
    read = LocalStore.read

    def slow_read(store, path):
        threads.add(threading.get_ident())
        time.sleep(0.02)
        return read(store, path)

    monkeypatch.setattr(LocalStore, "read", slow_read)
    table = DeltaTable(tmp_path)
    commits = list_commits(table.store)
    for ask in (
        table.history,
        lambda: commit_times(table.store, commits),
        lambda: change_feed(table.store, CommitRange(0, (0,) * 8)).parts,
    ):
        CACHE.clear()
        threads.clear()
        assert len(ask()) == 8
        assert len(threads) > 4
