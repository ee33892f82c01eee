"""Commits on a real S3 server by many processes, while answers are lost and the server is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import StoreError, StoreRefusedError
from lakehouse_lib.log import file_names
from lakehouse_lib.store import open_store
from lakehouse_lib.store.s3 import conditional_puts
from lakehouse_lib.store.s3 import s3_store as s3
from tests.faults.storm import Place, storm
from tests.interop.commits.interleave import interleave
from tests.s3.racer import ROWS
from tests.s3.server import Proxy, options_of
from tests.table_on_s3 import delta_rs_ids, ids, rows


@contextmanager
def racers(
    location: str, options: dict[str, str], kinds: list[str], rounds: int
) -> Iterator[list[subprocess.Popen[str]]]:
    """One process of each kind, ready and waiting for its first line."""
    environment = {**os.environ, **{name.upper(): value for name, value in options.items()}, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.s3.racer", kind, location, str(number), str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for number, kind in enumerate(kinds)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield started
        assert [process.wait(120) for process in started] == [0] * len(started)
    finally:
        for process in started:
            process.kill()
            process.communicate()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def check_commits(location: str, options: dict[str, str], starts: list[int]) -> None:
    """Check that every acknowledged commit, and every version, exists exactly once."""
    table = DeltaTable(location, storage_options=options)
    expected = sorted(number for start in starts for number in range(start, start + ROWS))
    assert ids(table.to_pyarrow_table()) == expected == delta_rs_ids(location, options)
    named = [file_names.parse(meta.path) for meta in table.store.list_from(file_names.LOG, "0")]
    versions = [name.version for name in named if name is not None and name.kind == "commit"]
    assert versions == list(range(len(starts)))


@pytest.mark.parametrize("count", [8, 16])
def test_one_process_wins_each_put(server, location, count):
    rounds = 25
    store = open_store(location, server.options)
    with racers(location, server.options, ["put"] * count, rounds) as processes:
        winners = []
        for version in range(rounds):
            for process in processes:
                go(process)
            results = [said(process) for process in processes]
            assert results.count("won") == 1, results
            winner = results.index("won")
            assert store.read(f"_delta_log/{version:020d}.json") == bytes([winner]) * 50_000
            winners.append(winner)
    print(f"{rounds} races of {count} processes, one winner each; won by {len(set(winners))} of them")


@pytest.mark.parametrize(
    "kinds", [["append"] * 8, ["append"] * 16, ["append", "delta-rs"] * 4], ids=["8", "16", "mixed"]
)
def test_concurrent_processes_append_to_one_table_without_loss(server, location, kinds):
    rounds = 5
    write_deltalake(location, rows(10**6, ROWS), storage_options=server.options)
    with racers(location, server.options, kinds, rounds) as processes:
        started = time.monotonic()
        for process in processes:
            go(process)
        committed = [int(said(process)) for process in processes for _ in range(rounds)]
        took = time.monotonic() - started
    assert len(committed) == len(set(committed)) == len(kinds) * rounds
    check_commits(location, server.options, [10**6, *committed])
    print(f"{len(committed)} commits of {len(kinds)} processes in {took:.1f} s")


def test_our_commits_among_those_of_delta_rs(server, tmp_path):
    # `make interop-commits-s3` is the long form.
    result = interleave(tmp_path, {"ours": 2, "delta-rs": 2}, commits=60, versions=3, seed=3, server=server)
    assert result.verdict.violations == []
    assert result.verdict.versions > 60
    assert min(result.commits.values()) >= 6
    assert result.records.failed == {}
    print(f"{result.verdict.versions - 1} commits in {result.seconds:.1f} s: {result.commits}")


def test_a_lost_answer_after_the_server_has_stored_the_commit(server, location):
    lost: list[str] = []

    def lose(method: str, path: str) -> bool:
        if method == "PUT" and "_delta_log/0" in path and path.endswith(".json") and path not in lost:
            lost.append(path)
            return True
        return False

    with Proxy(server.port, lose=lose) as proxy:
        starts = [number * ROWS for number in range(6)]
        for start in starts:
            write_deltalake(location, rows(start, ROWS), mode="append", storage_options=options_of(proxy.url))
    assert len(lost) == 6
    check_commits(location, server.options, starts)


def test_lost_answers_at_random_calls(server, location):
    chance, lost = random.Random(7), []

    def lose(method: str, path: str) -> bool:
        if chance.random() < 0.15:
            lost.append((method, path))
            return True
        return False

    with Proxy(server.port, lose=lose) as proxy:
        options = options_of(proxy.url)
        starts = [number * ROWS for number in range(12)]
        for start in starts:
            write_deltalake(location, rows(start, ROWS), mode="append", storage_options=options)
        table = DeltaTable(location, storage_options=options)
        assert table.optimize.compact()["numFilesAdded"] == 1
        assert table.delete("id < 30")["num_deleted_rows"] == 30
    assert len(lost) > 10
    table = DeltaTable(location, storage_options=server.options)
    assert ids(table.to_pyarrow_table()) == list(range(30, 120)) == delta_rs_ids(location, server.options)
    assert table.version() == 13


def test_the_server_is_killed_and_started_again_in_mid_commit(server, location):
    committed: list[int] = []
    failed: list[BaseException] = []
    done = threading.Event()

    def write(number: int) -> None:
        try:
            for step in range(100):
                if done.is_set():
                    return
                start = (number * 100 + step) * ROWS
                write_deltalake(location, rows(start, ROWS), mode="append", storage_options=server.options)
                committed.append(start)
        except BaseException as error:
            failed.append(error)

    write_deltalake(location, rows(10**6, ROWS), storage_options=server.options)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(4):
        time.sleep(1)
        server.stop(kill=True)
        time.sleep(0.5)
        server.start()
    time.sleep(1)
    done.set()
    for writer in writers:
        writer.join()
    assert not failed, failed
    assert len(committed) > 5
    check_commits(location, server.options, [10**6, *committed])
    print(f"{len(committed)} commits over four deaths of the server")


def allow_two_winners() -> None:
    """A store whose put_if_absent is a check and a put."""

    def racy(self: s3.S3Store, path: str, data: bytes) -> bool:
        if self.head(path) is not None:
            return False
        self.put(path, data)
        return True

    s3.S3Store.put_if_absent = racy  # type: ignore[method-assign]


@pytest.mark.parametrize("sabotage", [None, allow_two_winners])
def test_killed_writers_lose_no_acknowledged_commit(server, location, tmp_path, sabotage):
    """Acknowledged commits exist once; a writer with the broken store is found."""
    place = Place(location, server.objects / location.removeprefix("s3://"), server.options)
    kills = 0 if sabotage else 24
    result = storm(tmp_path, commits=24, kills=kills, processes=6, versions=3, seed=5, place=place, sabotage=sabotage)
    if sabotage:
        assert any("is not in the log" in violation for violation in result.verdict.violations)
        return
    assert result.killed == kills
    assert result.verdict.violations == []
    assert result.verdict.versions > 24
    assert result.verdict.looked_at == 3


def test_a_server_that_ignores_conditions_is_refused(server, location, monkeypatch):
    monkeypatch.setattr(conditional_puts, "_probed_buckets", set())
    with Proxy(server.port, strip=("if-none-match",)) as proxy:
        options = options_of(proxy.url)
        with pytest.raises(StoreRefusedError, match=r"ignores the condition of a put.*single_writer=true"):
            write_deltalake(location, rows(0), storage_options=options)
        assert not DeltaTable.is_deltatable(location, options)
        alone = {**options, "single_writer": "true"}
        for start in (0, 10, 20):
            write_deltalake(location, rows(start, ROWS), mode="append", storage_options=alone)
    check_commits(location, server.options, [0, 10, 20])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"aws_secret_access_key": "not-it"}, "SignatureDoesNotMatch.*secret key does not belong"),
        ({"aws_access_key_id": "nobody"}, "InvalidAccessKeyId.*does not know|No user exists with the provided"),
        ({"aws_region": "mars-1"}, "bucket is in us-east-1.*AWS_REGION|AuthorizationHeaderMalformed.*region"),
        ({"aws_secret_access_key": None, "aws_access_key_id": None}, "no credentials"),
    ],
    ids=["secret", "key", "region", "none"],
)
def test_errors_of_wrong_credentials_and_regions_have_hints(server, location, wrong, message):
    options = {name: value for name, value in {**server.options, **wrong}.items() if value is not None}
    with pytest.raises(StoreError, match=message) as caught:
        write_deltalake(location, rows(0), storage_options=options)
    assert "not it" not in str(caught.value)
    with pytest.raises(StoreError, match="NoSuchBucket"):
        DeltaTable("s3://no-such-bucket/t", storage_options=server.options)
