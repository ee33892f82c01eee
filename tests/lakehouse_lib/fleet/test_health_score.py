"""The score of a table: its reasons, the verbs that fix them, and that a worse number never raises it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable
from lakehouse_lib.fleet.health import Health, health, score
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.log_builder import add, put

DAY = 86_400.0


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Health:
    """The metrics of a table of one file, as if it had 1,000 of them."""
    root = tmp_path_factory.mktemp("healthy")
    write_deltalake(root, pa.table({"id": list(range(10))}))
    metrics = health(load_snapshot(open_store(root)), clustered_by=["id"])
    return replace(metrics, files=1_000, bytes=10**9, skipping={"id": 0.999}, unclustered_files=1_000)


def reasons(metrics: Health) -> dict[str, str]:
    return {reason.name: reason.verb for reason in score(metrics).reasons}


def test_the_verbs_of_the_reasons_lead_to_100(tmp_path: Path) -> None:
    for start in range(0, 240, 10):
        write_deltalake(tmp_path, pa.table({"id": list(range(start, start + 10))}), mode="append")
    assert reasons(DeltaTable(tmp_path).health()) == {"small_files": "optimize", "log_to_replay": "checkpoint"}
    DeltaTable(tmp_path).optimize.compact()
    DeltaTable(tmp_path).create_checkpoint()
    later = health(load_snapshot(open_store(tmp_path)), now=DeltaTable(tmp_path).snapshot.modified / 1000 + 8 * DAY)
    assert reasons(later) == {"reclaimable_files": "vacuum"}
    DeltaTable(tmp_path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert score(DeltaTable(tmp_path).health()).to_dict() == {"points": 100, "reasons": []}


def test_a_file_without_statistics_and_deleted_rows_are_reasons(tmp_path: Path) -> None:
    vector = {"storageType": "p", "pathOrInlineDv": "/v", "offset": 1, "sizeInBytes": 34, "cardinality": 40}
    put(tmp_path, 0, add("0", stats='{"numRecords":100}', deletionVector=vector), add("1", stats='{"numRecords":100}'))
    metrics = health(load_snapshot(open_store(tmp_path)))
    assert (metrics.deleted_rows, metrics.deleted_row_share, metrics.files_with_many_deleted_rows) == (40, 0.2, 1)
    assert (metrics.rows, metrics.uncounted_files) == (160, 0)
    assert reasons(metrics) == {"deleted_rows": "optimize"}
    put(tmp_path, 1, add("2"))
    metrics = health(load_snapshot(open_store(tmp_path)))
    assert (metrics.rows, metrics.deleted_row_share, metrics.uncounted_files) == (None, None, 1)
    assert reasons(metrics) == {"deleted_rows": "optimize", "missing_statistics": "compute_statistics"}


def test_files_that_will_be_clustered_are_not_compacted(healthy: Health) -> None:
    worse = replace(healthy, joinable_files=500, skipping={"id": 0.1})
    assert reasons(worse) == {"small_files": "z_order", "poor_skipping": "z_order"}
    assert reasons(replace(worse, unclustered_files=0)) == {"small_files": "z_order"}  # z_order would change nothing
    assert reasons(replace(worse, clustered_by=(), skipping={})) == {"small_files": "optimize"}


def test_nine_small_files_need_nothing(healthy: Health) -> None:
    assert score(replace(healthy, files=9, joinable_files=9)).points == 100


#: Numbers that get worse as they rise.
RISING = {
    "joinable_files": st.integers(0, 1_000),
    "deleted_row_share": st.floats(0, 1),
    "files_with_many_deleted_rows": st.integers(0, 1_000),
    "checkpoint_lag": st.floats(0, 1e9),
    "reclaimable_bytes": st.integers(0, 2**62),
    "uncounted_files": st.integers(0, 1_000),
    "unclustered_files": st.integers(0, 1_000),
}
numbers = st.fixed_dictionaries(RISING | {"skipping": st.floats(0, 1)})


def worse_of(healthy: Health, values: dict[str, Any]) -> Health:
    return replace(healthy, **values | {"skipping": {"id": values["skipping"]}})


@given(numbers, numbers, st.booleans())
def test_a_number_that_gets_worse_never_raises_the_score(
    healthy: Health, first: dict[str, Any], second: dict[str, Any], is_counted: bool
) -> None:
    worst = {name: (min if name == "skipping" else max)(first[name], second[name]) for name in first}
    if not is_counted:
        first, worst = first | {"deleted_row_share": None}, worst | {"deleted_row_share": None}
    better, worse = score(worse_of(healthy, first)), score(worse_of(healthy, worst))
    assert worse.points <= better.points
    assert 0 <= worse.points <= 100 == worse.points + sum(reason.points for reason in worse.reasons)
    lost = [reason.points for reason in worse.reasons]
    assert lost == sorted(lost, reverse=True)
    assert all(points > 0 for points in lost)


def test_the_worst_table_has_a_score_of_0(healthy: Health) -> None:
    worst = dict.fromkeys(RISING, 1_000) | {"reclaimable_bytes": 2**40, "skipping": 0.0}
    assert score(worse_of(healthy, worst)).points == 0
