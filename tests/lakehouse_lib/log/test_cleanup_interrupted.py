"""Expired log cleanup killed at every moment: the state that readers find after any part of the deletions."""

import random
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_lib.errors import StoreError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.last_checkpoint_hint import LastCheckpoint, write_hint
from lakehouse_lib.log.retention.cleanup import clean_up, cutoff, plan_cleanup
from lakehouse_lib.snapshot import load_snapshot
from tests.fault_store import FaultStore
from tests.log_histories import KINDS, NOT_THERE, PastLog, all_seen, at, clean, state_at, weekly


@st.composite
def pasts(draw):
    """Versions, checkpoints (version, kind), compactions, whether there is a hint, and the day of the cleanup."""
    count = draw(st.integers(3, 16))
    version = st.integers(0, count - 1)
    return (
        count,
        draw(
            st.lists(st.tuples(version, st.sampled_from(KINDS)), max_size=5, unique_by=lambda checkpoint: checkpoint[0])
        ),
        draw(st.lists(st.tuples(version, version), max_size=3)),
        draw(st.booleans()),
        draw(st.integers(7, count + 8)),
        draw(st.integers(0, 2**32)),
    )


@pytest.mark.slow
@given(pasts())
@settings(max_examples=settings.default.max_examples // 5)  # each example writes many logs
def test_a_kept_version_is_readable_after_any_part_of_the_deletions(past):
    count, made, compacted, hinted, day, seed = past
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        log = PastLog(Path(folder)).commits(count)
        for version, kind in made:
            log.checkpoint(version, kind)
        for start, end in compacted:
            if start < end:
                log.compaction(start, end)
        if hinted and made:
            write_hint(log.store, LastCheckpoint(max(version for version, _ in made), 1, 1, 1))
        before = all_seen(log.store, range(count))
        assert all(isinstance(state, tuple) for state in before.values())
        snapshot = load_snapshot(log.store)
        going = clean(log, day, dry_run=True)
        listing = list(log.store.list_from(file_names.LOG))
        expired = max((v for v in range(count) if at(v) <= cutoff(at(day), timedelta(days=7))), default=None)
        pointed = max((v for v, _ in made), default=None) if hinted else None
        plan = plan_cleanup(listing, expired, pointed_to=pointed)
        if plan.base is None:
            assert going == []
            return
        base = plan.base.version
        assert base == max(v for v, _ in made if expired is not None and v <= expired)
        assert set(plan.paths) <= set(going)
        rest = [path for path in going if path not in set(plan.paths)]
        deletions = [path for step in plan.steps for path in chance.sample(step, len(step))] + rest
        for number, path in enumerate(deletions):
            log.store.delete_many([path])
            for version in {base, count - 1, chance.randrange(base, count), chance.randrange(base + 1)}:
                state = state_at(log.store, version)
                assert state == before[version] or (version < base and state is NOT_THERE), (number, path, version)
            assert snapshot.update().version == count - 1
        after = all_seen(log.store, range(count))
        assert {v: after[v] for v in range(base, count)} == {v: before[v] for v in range(base, count)}
        assert all(after[v] is NOT_THERE for v in range(base))
        assert state_at(log.store, None) == before[count - 1]
        assert clean(log, day) == []


def store_until_killed(root, deletions):
    """A store whose process is killed after so many deletions."""
    left = iter(range(deletions))

    def delete_until_killed(delete_many, paths):
        for path in paths:
            if next(left, None) is None:
                raise StoreError("killed", table=str(root))
            delete_many([path])

    return FaultStore(root, instead={"delete_many": delete_until_killed})


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_cleanup_is_finished_by_the_next_one(tmp_path, kind):
    def made(root):
        log = PastLog(root).commits(14)
        for version in (2, 6, 12):
            log.checkpoint(version, kind)
        for version in range(14):
            log.checksum(version)
        log.compaction(0, 3)
        return log

    whole = made(tmp_path / "whole")
    count = len(clean(whole, 14))
    for deaths in range(0, count, 3):
        log = made(tmp_path / str(deaths))
        before = all_seen(log.store, range(6, 14))
        store = store_until_killed(log.root, deaths)
        snapshot = load_snapshot(store)
        with pytest.raises(StoreError, match="killed"):
            clean_up(store, weekly(), snapshot.protocol, now=at(14))
        assert all_seen(log.store, range(6, 14)) == before
        clean(log, 14)
        assert len(log.listing()) == len(whole.listing())
        assert all_seen(log.store, range(6, 14)) == before


@pytest.mark.slow
def test_two_concurrent_cleanups_delete_the_same_files_as_one(tmp_path):
    log = PastLog(tmp_path).commits(21)
    for version in (5, 10):
        log.checkpoint(version, "parquet")
    log.checkpoint(15, "parquet")
    before = all_seen(log.store, range(15, 21))
    store = FaultStore(tmp_path, before={"delete_many": lambda _: clean(log, 23)})
    clean_up(store, weekly(), load_snapshot(store).protocol, now=at(20))
    assert all_seen(log.store, range(15, 21)) == before
