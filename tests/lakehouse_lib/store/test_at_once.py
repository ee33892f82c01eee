"""Many small requests: in threads for a remote store, one after the other for a disk."""

import threading

import pytest

from lakehouse_lib.store import LocalStore
from lakehouse_lib.store.concurrent import at_once


@pytest.mark.parametrize(("is_remote", "threads"), [(False, 1), (True, 16)])
def test_answers_come_in_order_and_from_so_many_threads(tmp_path, monkeypatch, is_remote, threads):
    monkeypatch.setattr(LocalStore, "is_remote", is_remote)
    met = threading.Barrier(threads)
    thread_ids = []

    def ask(item):
        thread_ids.append(threading.get_ident())
        met.wait(30)  # nobody continues before so many have arrived
        return item * 2

    assert at_once(LocalStore(str(tmp_path)), ask, range(32)) == list(range(0, 64, 2))
    assert len(set(thread_ids)) == threads


@pytest.mark.parametrize("is_remote", [False, True])
def test_the_first_error_is_raised(tmp_path, monkeypatch, is_remote):
    monkeypatch.setattr(LocalStore, "is_remote", is_remote)

    def ask(item):
        if item >= 3:
            raise ValueError(f"item {item}")
        return item

    with pytest.raises(ValueError, match="item 3"):
        at_once(LocalStore(str(tmp_path)), ask, range(10))
    assert at_once(LocalStore(str(tmp_path)), ask, []) == []
