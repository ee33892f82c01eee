"""The simulation itself: it replays, finds mutants, leaves nothing out, and continues after an interruption."""

from __future__ import annotations

import random
import re
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from lakehouse_lib.errors import StoreError
from lakehouse_lib.log import file_names as names
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.transaction.commit_base import CommitBase
from tests.simulation import creation
from tests.simulation.campaign import campaign, history_lines, shorten, tally
from tests.simulation.exploration import explore
from tests.simulation.hunting import Mutant, hunt
from tests.simulation.ledger import Ledger
from tests.simulation.mutants import MUTANTS, violation_of
from tests.simulation.record import RecordError, files_of_runs, open_record
from tests.simulation.runs import plan_of, run
from tests.simulation.scenarios import PAIRS, TRIPLES, explored, with_one_fault
from tests.simulation.simulation import Call, FaultPlan, Simulation
from tests.simulation.store import Bucket, SimulatedStore
from tests.simulation.traces import shape

pytestmark = pytest.mark.slow

_SCENARIOS = {scenario.name: scenario for scenario in (*PAIRS, *TRIPLES)}


def test_a_shared_initial_table_does_not_change_the_results() -> None:
    made = lru_cache(creation.create_initial_table)
    assert tally(0, 30, made) == tally(0, 30)
    assert tally(0, 30, made) == tally(0, 30)
    assert made.cache_info().hits > 30


def test_a_campaign_continues_after_an_interruption(tmp_path: Path) -> None:
    file = tmp_path / "night.json"
    with open_record(file, 0, 60) as record:
        record.add(0, tally(0, 50))
        record.save(5.0)
    with open_record(file, 0, 60) as record:
        assert (record.total, record.done, record.seconds, record.sittings) == (tally(0, 50), {0}, 5.0, 2)
        rest = dict(campaign(0, 60, 1, record.done))
        assert rest == {50: tally(50, 10)}
        record.add(50, rest[50])
        assert record.total == tally(0, 60)


def test_a_record_of_another_campaign_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "night.json"
    with open_record(file, 0, 60) as record:
        record.save(0)
        with pytest.raises(RecordError, match="another process has"), open_record(file, 0, 60):
            pass
    with pytest.raises(RecordError, match="pass a file in an existing folder"):
        open_record(tmp_path / "missing" / "night.json", 0, 60).__enter__()
    with pytest.raises(RecordError, match="has the number of seeds 60; expected 70: delete"):
        open_record(file, 0, 70).__enter__()
    file.write_text(re.sub('"code": "..', '"code": "--', file.read_text()))
    with pytest.raises(RecordError, match="has the code --"):
        open_record(file, 0, 60).__enter__()
    file.write_text(file.read_text()[:-9])
    with pytest.raises(RecordError, match=r"night\.json is not a valid record"):
        open_record(file, 0, 60).__enter__()


def test_the_code_of_a_record_is_the_files_that_runs_import() -> None:
    names = {str(path).partition("/lakehouse_lib/")[2] for path in files_of_runs()}
    assert {
        "log/commits/commit_file.py",
        "transaction/optimistic_transaction.py",
        "operations/upkeep/vacuum.py",
        "protocol/table_properties.py",
    } <= names
    assert names.isdisjoint({"store/s3/s3_store.py", "engine/spark/engine.py", "operations/optimize/rewrite.py"})
    assert {path.name for path in files_of_runs()} >= {"simulation.py", "ledger.py", "actors.py"}


def test_other_threads_do_not_affect_a_run() -> None:
    digests, over = [run(seed).digest for seed in range(3)], threading.Event()

    def live() -> None:
        while not over.is_set():
            time.sleep(0.001)
            random.random()
            uuid.uuid4()

    other = threading.Thread(target=live)
    other.start()
    try:
        assert [run(seed).digest for seed in range(3)] == digests
    finally:
        over.set()
        other.join()


def test_reducing_the_orders_loses_no_outcome() -> None:
    scenario = _SCENARIOS["create | create"]
    reduced, all_orders = explore(scenario), explore(scenario, reduce=False)
    assert all_orders.is_complete
    assert all_orders.orders > 2 * reduced.orders
    assert all_orders.shapes == reduced.shapes
    assert set(all_orders.outcomes) == set(reduced.outcomes)


def test_every_order_with_every_fault_of_a_call() -> None:
    orders = 0
    for fault, exploration in with_one_fault(_SCENARIOS["create | create"]):
        assert exploration.violation is None, fault
        orders += exploration.orders
    assert orders > 100


@pytest.mark.parametrize(("what", "seed"), [("row_id_high_water_mark", 3), ("commit_timestamp", 1972)])
def test_a_rebase_that_ignores_ids_or_times_of_the_winners_is_found(
    monkeypatch: pytest.MonkeyPatch, what: str, seed: int
) -> None:
    after = CommitBase.after

    def forgetful(self: CommitBase, winners: Sequence[CommitActions], table: str) -> CommitBase:
        return replace(after(self, winners, table), **{what: getattr(self, what)})

    assert run(seed).violation is None
    monkeypatch.setattr(CommitBase, "after", forgetful)
    assert run(seed).violation


def test_rows_that_are_copied_without_their_ids_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(2).violation is None
    monkeypatch.setattr("tests.simulation.row_files.row_ids", lambda *_: {})
    assert run(2).violation


#: It takes two lost races in the right order, which seeds seldom have, but one of all orders has.
_RETRY = next(mutant for mutant in MUTANTS if mutant.name.startswith("retry"))


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant is not _RETRY], ids=lambda mutant: mutant.name
)
def test_each_mutant_is_found(mutant: Mutant) -> None:
    result = hunt(mutant, violation_of, verbs=mutant.verbs)
    assert result.seed is not None
    assert run(plan_of(result.seed, mutant.verbs)).violation is None


def test_every_order_finds_a_retry_that_does_not_check_again() -> None:
    scenario = _SCENARIOS["count | append 0 | count"]
    with _RETRY.alive():
        exploration = explore(scenario)
    assert exploration.violation is not None
    assert "counts 1 after 1" in exploration.violation[0]
    assert explore(scenario).violation is None


def test_every_order_of_three_writers() -> None:
    exploration = explore(_SCENARIOS["delete 0 | append 0 | append 0, WriteSerializable"])
    assert exploration.violation is None
    assert exploration.is_complete
    assert exploration.orders == len(exploration.shapes) > 50
    assert set(exploration.outcomes) == {("committed",) * 3}


def test_write_serializable_needs_reordering_after_a_read_of_a_blind_append() -> None:
    """The example of WriteSerializable in docs/transactions.md."""
    scenario = _SCENARIOS["delete 0 | append 0 | insert 1 from all, opened anew, WriteSerializable"]
    assert explore(scenario).violation is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "_may_have_seen_it", lambda *_: False)
        exploration = explore(scenario)
    assert exploration.violation is not None
    assert "'kind': 'delete'" in exploration.violation[0]


def test_a_limited_scenario_is_reported_as_incomplete() -> None:
    result = explored([*_SCENARIOS].index("create | create"), 20)
    assert not result.without_fault.is_complete or result.cut
    assert 0 < result.cut <= result.faults


def test_a_violating_run_is_shortened() -> None:
    mutant = MUTANTS[0]
    result = hunt(mutant, violation_of)
    assert result.seed is not None
    with mutant.alive():
        before = run(result.seed)
        plan, report = shorten(result.seed, tries=2)
        again = run(plan)
    assert report.violation is not None
    assert again.digest == report.digest
    assert report.calls < before.calls
    assert len(list(history_lines(report.history))) == report.calls
    assert run(result.seed).violation is None


class _Script:
    """A chooser that runs the actors in their order; each call of the first actor has the next fault plan."""

    def __init__(self, *fault_plans: FaultPlan) -> None:
        self._fault_plans = list(fault_plans)

    def actor(self, calls: list[Call]) -> int:
        return 0

    def fault_plan(self, call: Call) -> FaultPlan:
        return self._fault_plans.pop(0) if self._fault_plans else FaultPlan()


def _store(*fault_plans: FaultPlan) -> tuple[Simulation, SimulatedStore]:
    simulation = Simulation(_Script(*fault_plans))
    return simulation, SimulatedStore(simulation, Bucket(lambda _path, _data: None), "a")


def test_a_delayed_put_happens_after_its_error() -> None:
    simulation, store = _store(FaultPlan(0, "error", late=True))
    answers = []

    def work() -> None:
        with pytest.raises(StoreError):
            store.put_if_absent("x", b"1")
        answers.append(store.head("x"))

    simulation.run({"a": work})
    assert answers == [None]
    assert store.bucket.objects["x"].data == b"1"


def test_a_delayed_put_does_not_replace_an_object() -> None:
    simulation, store = _store(FaultPlan(0, "error", late=True))

    def work() -> None:
        with pytest.raises(StoreError):
            store.put_if_absent("x", b"1")
        assert store.put_if_absent("x", b"2")

    simulation.run({"a": work})
    assert store.bucket.objects["x"].data == b"2"


def test_a_put_that_is_done_twice_is_refused() -> None:
    simulation, store = _store(FaultPlan(2))
    answers = []
    simulation.run({"a": lambda: answers.append(store.put_if_absent("x", b"1"))})
    assert answers == [False]
    assert store.bucket.objects["x"].data == b"1"


def test_a_listing_may_be_stale() -> None:
    simulation, store = _store(FaultPlan(), FaultPlan(), FaultPlan(), FaultPlan(), FaultPlan(stale=1000), FaultPlan())
    listings = []

    def work() -> None:
        store.put("old", b"")
        simulation.now += 2000
        store.put("new", b"")
        store.put("young", b"")
        store.delete_many(["old"])
        listings.extend([[meta.path for meta in store.walk()] for _ in range(2)])

    simulation.run({"a": work})
    assert listings == [["old"], ["new", "young"]]


def test_a_crashed_actor_runs_no_cleanup() -> None:
    simulation, store = _store(FaultPlan(), FaultPlan(1, "crash"))

    def work() -> None:
        try:
            store.put("x", b"")
            store.put("y", b"")
        finally:
            store.delete_many(["x"])

    simulation.run({"a": work})
    assert set(store.bucket.objects) == {"x", "y"}


def test_orders_of_independent_calls_have_one_shape() -> None:
    a, b, c = Call("a", "put", "part-1"), Call("b", "put", "part-2"), Call("b", "put", names.commit(1))
    assert shape([a, b, c]) == shape([b, a, c]) == shape([b, c, a])
    d = Call("a", "read", names.commit(1))
    assert shape([a, c, d]) != shape([a, d, c])
    listing = Call("a", "list", names.LOG)
    assert shape([a, c, listing]) != shape([a, listing, c])
    assert shape([b, listing]) == shape([listing, b])
