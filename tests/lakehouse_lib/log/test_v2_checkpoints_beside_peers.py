"""Checkpoints of the V2 spec beside delta-rs and DuckDB, and the property that chooses the spec."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import write_deltalake
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from tests.lakehouse_lib.log.v2_checkpoints import META, PROTOCOL, checkpoint, cut, top
from tests.log_builder import add_of_row, put, remove
from tests.peers import files_delta_rs, plain, read_duckdb


@pytest.fixture
def real(tmp_path, small_sidecars):
    """A table of files with one row each and a checkpoint every other version, and its final rows."""
    store = LocalStore(str(tmp_path / "real"), fsync=False)
    put(store, 0, PROTOCOL, META, *(add_of_row(store, f"{n}.parquet", n) for n in range(45)))
    checkpoint(store)
    put(store, 1, *(add_of_row(store, f"{n}.parquet", n) for n in range(45, 50)))
    put(store, 2, remove("7.parquet"), remove("46.parquet"))
    checkpoint(store)
    put(store, 3, add_of_row(store, "50.parquet", 50))
    put(store, 4, remove("8.parquet"), add_of_row(store, "51.parquet", 51))
    checkpoint(store)
    put(store, 5, remove("50.parquet"), add_of_row(store, "52.parquet", 52))
    cut(store, 4)
    return store, sorted(set(range(53)) - {7, 8, 46, 50})


def test_delta_rs_and_duckdb_read_the_same(real):
    store, expected = real
    assert load_snapshot(store).checkpoint_version == 4
    our_rows = plain(DeltaTable(store.root).to_pyarrow_table())
    assert our_rows["id"].to_pylist() == expected
    assert our_rows.equals(read_duckdb(store.root))
    assert files_delta_rs(store.root) == {Path(store.root, f"{value}.parquet") for value in expected}
    assert files_delta_rs(store.root, 4) == files_delta_rs(store.root) - {Path(store.root, "52.parquet")} | {
        Path(store.root, "50.parquet")
    }


def test_checkpoints_of_delta_rs_and_ours_in_turns(real):
    from deltalake import DeltaTable as Peer

    store, expected = real
    Peer(store.root).create_checkpoint()
    cut(store, 5)
    assert plain(DeltaTable(store.root).to_pyarrow_table())["id"].to_pylist() == expected
    put(store, 6, add_of_row(store, "53.parquet", 53))
    checkpoint(store)
    cut(store, 6)
    assert plain(DeltaTable(store.root).to_pyarrow_table())["id"].to_pylist() == [*expected, 53]
    assert read_duckdb(store.root)["id"].to_pylist() == [*expected, 53]


def test_a_table_is_created_with_the_policy_and_the_verbs_keep_it(tmp_path):
    configuration = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}
    for value in range(6):
        data = pa.table({"id": [value], "day": [f"d{value % 2}"]})
        write_deltalake(
            tmp_path / "t",
            data,
            mode="append",
            configuration=configuration if value == 0 else None,
            partition_by=["day"],
        )
    table = DeltaTable(tmp_path / "t")
    table.delete("id = 3")
    protocol = table.snapshot.protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == {"v2Checkpoint"}
    assert protocol.writer_features == {"v2Checkpoint", "appendOnly", "invariants"}
    store = table.snapshot.store
    assert load_snapshot(store).checkpoint_version == 6
    assert {body["path"] for body in top(store)["sidecar"]}
    cut(store, 6)
    our_rows = plain(DeltaTable(tmp_path / "t").to_pyarrow_table())
    assert our_rows["id"].to_pylist() == [0, 1, 2, 4, 5]
    assert our_rows.equals(read_duckdb(tmp_path / "t"))


def test_any_other_policy_is_refused(tmp_path):
    data = pa.table({"id": [1]})
    for policy in ("V2", "both", ""):
        with pytest.raises(InvalidArgumentError, match=r"checkpointPolicy.*classic or v2"):
            write_deltalake(tmp_path / "t", data, configuration={"delta.checkpointPolicy": policy})
