"""Two processes of this library and two of delta-rs commit to one table; `make interop-commits` is the long form."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as PeerTable

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.operations.optimize.compact import compact
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.write import write_deltalake
from tests.interop.commits.interleave import interleave
from tests.peers import read_delta_rs


@pytest.mark.slow
def test_concurrent_commits_with_delta_rs_lose_no_rows(tmp_path: Path) -> None:
    result = interleave(tmp_path, {"ours": 2, "delta-rs": 2}, commits=60, versions=4, seed=3)
    assert result.verdict.violations == []
    assert result.verdict.versions > 60
    assert min(result.commits.values()) >= 6
    assert result.records.failed == {}


def test_a_second_compaction_of_delta_rs_duplicates_rows(tmp_path: Path) -> None:
    # delta-rs' conflict check does not notice that another writer compacted the files, so rows double. Ours does.
    for number in range(4):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    peer_table, snapshot = PeerTable(str(tmp_path)), load_snapshot(LocalStore(str(tmp_path)))
    DeltaTable(tmp_path).optimize.compact()
    assert compact(snapshot, ArrowEngine()).version is None  # planned again: nothing is left to merge
    assert read_delta_rs(tmp_path).num_rows == 4
    peer_table.optimize.compact()
    assert read_delta_rs(tmp_path).num_rows == 8, "delta-rs has learnt it: let its writers compact, too"
