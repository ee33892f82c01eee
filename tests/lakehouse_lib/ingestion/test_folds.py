"""Settled batches are folded into segments: lookups stay exact, and no file is loaded twice or lost."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import ConcurrentTransactionError, IngestError
from lakehouse_lib.ingestion.intent_log import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint, SourceFile
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.state import settled_files, source_state
from lakehouse_lib.ingestion.state.folds import Fold, Folds, Watermark
from lakehouse_lib.ingestion.state.settled_files import SETTLED, SettledFiles, newest
from lakehouse_lib.store import LocalStore, open_store
from tests.fault_store import FaultStore
from tests.named_files import NamedFiles


class KilledError(Exception):
    """The process ends at this call."""


@pytest.fixture(autouse=True)
def _fold_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_state, "_MOST_BATCHES", 2)
    monkeypatch.setattr(settled_files, "_GROUP_ROWS", 3)


def settled(names: dict[str, int]) -> pa.Table:
    rows = [
        {"name": name, "size": batch, "modified": 0, "digest": name, "batch": batch} for name, batch in names.items()
    ]
    return pa.Table.from_pylist(rows, schema=SETTLED)


@given(
    st.lists(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.just(0), max_size=20), max_size=8),
    st.lists(st.text("abcd", max_size=3), max_size=30),
    st.integers(0, 8),
)
def test_lookups_give_the_newest_batch_of_a_name(
    tmp_path_factory: pytest.TempPathFactory, batches: list[dict[str, int]], queries: list[str], folded: int
) -> None:
    store = open_store(tmp_path_factory.mktemp("t"))
    folds, fold = Folds(store, "_ingest/erp"), Fold()
    expected: dict[str, int] = {}
    tables = []
    for number, names in enumerate(batches):
        expected |= dict.fromkeys(names, number)
        tables.append(settled(dict.fromkeys(names, number)))
        if number < folded:
            added = folds.add(fold, newest([tables.pop()]), through=number, loaded=number, watermark=None)
            assert added is not None
            fold = added
            assert folds.latest() == fold
    files = SettledFiles(store, fold.segments, newest(tables))
    for names in (sorted(queries), queries, sorted({*queries, *expected})):
        rows = files.lookup(pa.array(names, pa.string()))
        assert rows["batch"].to_pylist() == [expected.get(name) for name in names]
        assert rows["name"].to_pylist() == [name if name in expected else None for name in names]


def test_segments_stay_few(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    folds, fold = Folds(store, "_ingest/erp"), Fold()
    for number in range(100):
        rows = settled({f"{number:05d}-{row}": number for row in range(5)})
        added = folds.add(fold, rows, through=number, loaded=number, watermark=None)
        assert added is not None
        fold = added
    assert sum(segment.rows for segment in fold.segments) == 500
    assert len(fold.segments) <= 5
    stored = [path for path in (tmp_path / "_ingest").rglob("*") if path.is_file()]
    assert len(stored) <= 2 + 2 * 5  # two folds, and the segments of both


def test_state_has_few_objects_and_the_same_answers(tmp_path: Path) -> None:
    environment = NamedFiles(tmp_path)
    for number in range(12):
        environment.land(f"{number:02d}.csv", f"{number:02d}-x.csv")
        environment.run()
    assert environment.loaded() == [f"{number:02d}.csv" for number in range(12)]
    state, _ = environment.state()
    assert state.history.next_number == 12
    assert len(environment.objects()) < 12
    files = state.look()
    assert files.new.num_rows == 0
    assert files.refused == {f"{number:02d}-x.csv": "bad" for number in range(12)}
    # A folded file that has other content, and a folded rejected file that was corrected.
    environment.land("03.csv", "00-x.csv", content="other content")
    files = state.look()
    assert files.changed == {"03.csv": 3}
    assert files.new["name"].to_pylist() == ["00-x.csv"]


def test_segments_are_closed_when_the_files_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = NamedFiles(tmp_path)
    for number in range(12):
        environment.land(f"{number:02d}.csv")
        environment.run()
    state, _ = environment.state()
    streams: list[pa.NativeFile] = []
    open_input = LocalStore.open_input

    def opened(store: LocalStore, path: str) -> pa.NativeFile:
        streams.append(open_input(store, path))
        return streams[-1]

    monkeypatch.setattr(LocalStore, "open_input", opened)
    state.look()
    assert len(streams) == len(state.history.fold.segments) > 0
    assert all(stream.closed for stream in streams)


CALLS = ("put", "put_if_absent", "read", "list_from", "delete_many")


def at_call(number: int, event: Callable[[], object]) -> tuple[dict[str, Callable[[str], object]], Callable[[], bool]]:
    """Events of a ``FaultStore`` at one call for the intent log; and whether it has come."""
    left = number

    def count(path: str) -> None:
        nonlocal left
        left -= "_ingest" in path
        if left == 0 and "_ingest" in path:
            event()

    return dict.fromkeys(CALLS, count), lambda: left <= 0


def die() -> None:
    raise KilledError


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_runs_that_are_killed_at_any_call_load_each_file_once(tmp_path: Path, when: str) -> None:
    environment = NamedFiles(tmp_path)
    landed: list[str] = []
    for call in range(1, 100):
        names = [f"{call:03d}-{kind}.csv" for kind in ("a", "x", "c", "d")]
        landed += [name for name in names if "x" not in name]
        environment.land(*names)
        events, has_come = at_call(call, die)
        killed = FaultStore(environment.source.table, **{when: events})  # type: ignore[arg-type]
        try:
            environment.run(killed)
        except KilledError:
            environment.run()
        assert environment.loaded() == sorted(landed)
        if not has_come():
            break
    else:
        pytest.fail("a run has more calls than expected")
    assert call > 20
    assert environment.state()[0].look().new.num_rows == 0
    assert len(environment.objects()) < 20  # what the killed runs have left is deleted


@pytest.mark.slow
@pytest.mark.parametrize("give_up", [False, True])
def test_a_run_beside_a_slow_run_at_any_call_loads_each_file_once(tmp_path: Path, give_up: bool) -> None:
    """The other run, which also lands and loads files until it folds, comes before one call of the slow run."""
    environment = NamedFiles(tmp_path)
    landed: list[str] = []
    conflicts = 0
    for call in range(1, 100):
        names = [f"{call:03d}-{kind}.csv" for kind in ("a", "b", "x", "c")]
        more = [f"{call:03d}-{kind}.csv" for kind in ("e", "f", "g", "h")]
        landed += [name for name in (*names, *more) if "x" not in name]
        environment.land(*names)

        def overtake() -> None:
            environment.run(give_up=give_up)
            environment.land(*more)  # noqa: B023
            environment.run()

        events, has_come = at_call(call, overtake)
        try:
            environment.run(FaultStore(environment.source.table, before=events))
        except (ConcurrentTransactionError, IngestError):
            conflicts += 1
        environment.land(*more)
        environment.run()
        assert environment.loaded() == sorted(landed)
        if not has_come():
            break
    else:
        pytest.fail("a run has more calls than expected")
    assert conflicts > 5


def test_a_fold_that_another_run_has_made_wins(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    folds = Folds(store, "_ingest/erp")
    first = folds.add(Fold(), settled({"a": 0}), through=0, loaded=0, watermark=None)
    assert first is not None
    assert folds.add(Fold(), settled({"b": 0}), through=1, loaded=1, watermark=None) is None
    for number in range(1, 5):
        assert folds.add(
            folds.latest() or Fold(), settled({f"{number}": number}), through=number, loaded=0, watermark=None
        )
    # The name of fold 1 is free again, but a run that puts it does not clean up.
    IntentLog(store, "erp").put(Intent(9, (), {}))
    assert folds.add(first, settled({"c": 1}), through=9, loaded=9, watermark=None) is None  # its segment is deleted
    without_segments = replace(first, segments=())
    assert folds.add(without_segments, settled({"c": 1}), through=9, loaded=9, watermark=None) is None
    latest = folds.latest()
    assert latest is not None
    assert (latest.number, latest.through) == (4, 4)
    assert store.head("_ingest/erp/00000000000000000009.json") is not None


def test_a_put_with_a_lost_answer_is_recognized_as_this_fold(tmp_path: Path) -> None:
    def repeated(method: Callable[..., bool], *arguments: Any) -> bool:
        method(*arguments)
        return method(*arguments)

    folds = Folds(FaultStore(tmp_path, instead={"put_if_absent": repeated}), "_ingest/erp")
    fold = folds.add(Fold(), settled({"a": 0}), through=0, loaded=0, watermark=None)
    assert fold is not None
    assert folds.latest() == fold


def test_entries_of_folded_batches_are_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    slow = IntentLog(store, "erp")
    slow.read_after_fold()
    assert Folds(store, "_ingest/erp").add(Fold(), settled({"a": 3}), through=3, loaded=3, watermark=None)
    for entry in (Intent(3, (), {}), Outcome(3), Outcome(2, given_up="x")):
        for _ in range(2):
            with pytest.raises(ConcurrentTransactionError, match=f"has settled batch {entry.number}"):
                slow.decide(entry) if isinstance(entry, Outcome) else slow.put(entry)
    assert slow.put(Intent(4, (), {}))


@pytest.mark.parametrize("damage", ["segment", "segment content", "fold", "fold content"])
def test_a_damaged_or_missing_part_of_the_state_stops_the_load(tmp_path: Path, damage: str) -> None:
    environment = NamedFiles(tmp_path)
    for number in range(2):
        environment.land(f"{number}.csv")
        environment.run()
    environment.land("2.csv")
    (path,) = (tmp_path / "table/_ingest/erp" / ("settled" if "segment" in damage else "folds")).iterdir()
    if damage.endswith("content"):
        path.write_bytes(b"{}")
    else:
        path.unlink()
    with pytest.raises(IngestError, match=r"is missing|is not a valid|has no batch 1"):
        environment.state()[0].look()


def test_files_by_name_are_listed_after_those_that_are_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = NamedFiles(tmp_path, order="by_name", settle_seconds=0)
    listed: list[str] = []
    files = type(environment.source.open_landing()).files

    def noted(self: Any, after: str = "") -> Any:
        listed.append(after)
        return files(self, after)

    monkeypatch.setattr(type(environment.source.open_landing()), "files", noted)
    for number in range(9):
        environment.land(f"{number}.csv")
        environment.run()
    assert environment.loaded() == [f"{number}.csv" for number in range(9)]
    assert listed[-1] == "7.csv"
    # The pattern has changed, so files before this name may be new.
    environment.source = Source(**{**vars(environment.source), "pattern": "*"})
    environment.state()[0].look()
    assert listed[-1] == ""


def test_the_watermark_stays_before_files_that_are_not_settled(tmp_path: Path) -> None:
    environment = NamedFiles(tmp_path, order="by_name")
    environment.land("1", "2", "3", "4", "5", "6")
    landing = environment.source.open_landing()

    class Growing:
        """A landing folder in which file 4 changes before its batch begins."""

        def __getattr__(self, name: str) -> Any:
            return getattr(landing, name)

        def fingerprint(self, file: SourceFile) -> Fingerprint | None:
            return None if file.name == "4" else landing.fingerprint(file)

    environment.source = _With(environment.source, Growing())  # type: ignore[assignment]
    environment.run()
    fold = IntentLog(open_store(environment.source.table), "erp").folds.latest()
    assert fold is not None
    assert fold.watermark == Watermark("3", environment.source.landing, None)
    environment.source = Source(**vars(environment.source.source))  # type: ignore[attr-defined]
    environment.land("7", "8")
    environment.run()
    assert environment.loaded() == ["1", "2", "3", "4", "5", "6", "7", "8"]


class _With:
    """A source with another landing folder."""

    def __init__(self, source: Source, landing: Any) -> None:
        self.source, self._landing = source, landing

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def open_landing(self) -> Any:
        return self._landing


@pytest.mark.slow
def test_random_kills_of_runs(tmp_path: Path) -> None:
    """Several runs are killed one after the other, before or after the effect of a call, and segments are merged."""
    numbers = random.Random(1)
    environment = NamedFiles(tmp_path)
    landed: list[str] = []
    for run in range(150):
        names = [f"{numbers.random()}{'-x' * (numbers.random() < 0.2)}" for _ in range(numbers.randint(0, 9))]
        landed += [name for name in names if "x" not in name]
        environment.land(*names)
        events, _ = at_call(numbers.randint(1, 60), die)
        with contextlib.suppress(KilledError):
            environment.run(FaultStore(environment.source.table, **{"before" if run % 2 else "after": events}))  # type: ignore[arg-type]
    environment.run()
    assert environment.loaded() == sorted(landed)
    assert environment.state()[1].folds.latest() is not None


@pytest.mark.slow
def test_a_look_at_many_loaded_files_takes_little_more_than_reading_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled_files, "_GROUP_ROWS", 1 << 16)
    environment = NamedFiles(tmp_path, pattern="**/*.csv")
    files = 100_000
    for day in range(100):
        folder = tmp_path / f"landing/day={day}"
        folder.mkdir()
        for number in range(files // 100):
            os.close(os.open(folder / f"orders-{number:09d}.csv", os.O_CREAT))
    store = open_store(environment.source.table)
    folds, fold = Folds(store, "_ingest/erp"), Fold()
    for part in environment.source.open_landing().files():
        columns = [part["name"], part["size"], part["modified"], part["name"]]
        batch, none = pa.repeat(fold.through + 1, len(part)), pa.nulls(len(part), pa.string())
        rows = pa.Table.from_arrays([*columns, batch, none, none], schema=SETTLED)
        added = folds.add(fold, rows, through=fold.through + 1, loaded=None, watermark=None)
        assert added is not None
        fold = added
    files_left: list[int] = []

    def read_folders() -> None:
        for folder in os.scandir(tmp_path / "landing"):
            for entry in os.scandir(folder.path):
                entry.stat()

    def look() -> None:
        files_left.append(environment.state()[0].look().new.num_rows)

    def fastest(work: Callable[[], None]) -> float:
        times = []
        for _ in range(3):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        return min(times)

    pool, memory = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(memory)
    try:
        assert fastest(look) < 4 * fastest(read_folders)
    finally:
        pa.set_memory_pool(pool)
    assert files_left == [0, 0, 0]
    assert memory.max_memory() < 128 << 20
