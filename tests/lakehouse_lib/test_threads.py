"""Work in threads keeps its order, its bounds and its errors; locks of a process are free in a forked child."""

import multiprocessing
import os
import threading
import warnings

import pytest

from lakehouse_lib import threads
from lakehouse_lib.threads import ProcessLock, map_in_threads, processors


def test_results_come_in_the_order_of_the_items_from_all_threads():
    met = threading.Barrier(4)

    def work(number):
        met.wait(30)  # no thread continues before all have arrived
        return number, threading.get_ident()

    results = list(map_in_threads(work, range(8), 4))
    assert [number for number, _ in results] == list(range(8))
    assert len({thread for _, thread in results}) == 4


@pytest.mark.parametrize(("items", "threads"), [(range(9), 0), (range(1), 4), (range(0), 4)])
def test_the_caller_works_itself_if_threads_gain_nothing(items, threads):
    results = list(map_in_threads(lambda _: threading.get_ident(), items, threads))
    assert results == [threading.get_ident()] * len(items)


@pytest.mark.parametrize("ahead", [1, 5])
def test_items_are_requested_only_so_far_ahead_of_the_caller(ahead):
    numbers = []

    def items():
        for number in range(100):
            numbers.append(number)
            yield number

    results = map_in_threads(lambda number: number, items(), 3, ahead=ahead)
    for number in range(20):
        assert next(results) == number
        assert len(numbers) == number + 1 + ahead
    assert list(results) == list(range(20, 100))


def test_the_first_error_is_raised_and_no_later_item_begins():
    begun = []
    late = threading.Event()

    def work(number):
        begun.append(number)
        if number == 0:
            late.wait(30)
        if number == 1:
            late.set()
        if number < 2:
            raise ValueError(f"item {number}")
        threading.Event().wait(0.05)

    with pytest.raises(ValueError, match="item 0"):
        list(map_in_threads(work, range(1000), 2))
    assert len(begun) < 100


def test_no_item_begins_after_the_results_are_closed():
    begun = []
    go_on = threading.Event()

    def work(number):
        begun.append(number)
        if number:
            go_on.wait(0.2)
        return number

    results = map_in_threads(work, range(1000), 2)
    assert next(results) == 0
    results.close()
    assert len(begun) < 10


def test_a_lock_that_a_thread_holds_at_a_fork_is_free_in_the_child():
    lock = ProcessLock()
    held, over = threading.Event(), threading.Event()

    def hold():
        with lock, lock:
            held.set()
            over.wait()

    def use():
        with lock:
            pass

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    other = threading.Thread(target=use, daemon=True)
    other.start()
    other.join(0.1)
    assert other.is_alive()  # the lock is held in this process
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # warns of forks with threads, from Python 3.12 on
            child = multiprocessing.get_context("fork").Process(target=use, daemon=True)
            child.start()
        child.join(30)
        assert child.exitcode == 0
    finally:
        over.set()
        thread.join()
        child.kill()


def test_a_child_that_was_forked_while_its_thread_held_the_lock_releases_it():
    lock = ProcessLock()
    parent = os.getpid()
    status = 1
    try:
        with lock:
            child = os.fork()
        status = 0
    finally:
        if os.getpid() != parent:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("max 100000", 64),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("5000 100000", 1),
        ("9900000 100000", 64),
        ("", 64),
    ],
)
def test_the_processors_are_not_more_than_the_limit_of_the_container(monkeypatch, tmp_path, limit, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    monkeypatch.setattr(threads, "_CPU_LIMIT", tmp_path / "cpu.max")
    assert processors() == 64
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert processors() == expected
