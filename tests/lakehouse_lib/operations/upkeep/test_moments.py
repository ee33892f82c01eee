"""The argument ``now`` of the upkeep verbs: a time without a zone is UTC, wherever the machine is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.operations.upkeep.cleanup import cleanup
from lakehouse_lib.operations.upkeep.repair import repair
from lakehouse_lib.operations.upkeep.vacuum import vacuum
from lakehouse_lib.snapshot import Snapshot
from tests.table_builder import longs

NOW = datetime(2026, 11, 25, 22)  # five hours later it is the next day in UTC
TEMPORARY = f"_delta_log/.x.{'0' * 32}.tmp"


@pytest.fixture
def new_york() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    ("path", "hours", "deleted"),
    [
        ("leftover.parquet", 166, lambda snapshot, now: vacuum(snapshot, now=now).files),
        (TEMPORARY, 34, lambda snapshot, now: cleanup(snapshot, now=now).files),
        (TEMPORARY, 34, lambda snapshot, now: repair(snapshot, now=now).temporary),
    ],
    ids=["vacuum", "cleanup", "repair"],
)
def test_a_time_without_a_time_zone_is_utc(
    tmp_path: Path, path: str, hours: int, deleted: Callable[[Snapshot, datetime], Sequence[str]]
) -> None:
    write_deltalake(tmp_path, longs(id=[1]))
    (tmp_path / path).touch()
    os.utime(tmp_path / path, ((NOW.replace(tzinfo=UTC) - timedelta(hours=hours)).timestamp(),) * 2)
    snapshot = DeltaTable(tmp_path).snapshot
    assert list(deleted(snapshot, NOW + timedelta(hours=5))) == [path]
    assert list(deleted(snapshot, NOW)) == []
