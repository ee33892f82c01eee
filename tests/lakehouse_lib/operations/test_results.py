"""Results of verbs, and the shapes that DeltaTable makes of them, compared with delta-rs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import ArrowEngine, DeltaTable, write_deltalake
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.operations.write.write import Write, write
from lakehouse_lib.privacy.purge import purge
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import open_store

ROWS = pa.table({"a": [1, 2]})
#: Metrics of delta-rs' planner, which this library does not have.
PLANNER = {"plannerStrategy", "maxBinSpanFiles", "preservedStableOrder"}
#: delta-rs counts batches of rows, and writes one file in each thread.
DIFFERENT = {"numBatches", "num_added_files", "preserveInsertionOrder"}


def test_the_result_of_a_write_has_its_version(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    results = [write(store, incoming(ROWS), Write(mode=mode), ArrowEngine()) for mode in ("error", "append", "ignore")]
    assert [(result.read_version, result.version) for result in results] == [(None, 0), (0, 1), (1, None)]
    assert [result.metrics["numOutputRows"] for result in results] == [2, 2, 0]
    logged = deltalake.DeltaTable(tmp_path).history(1)[0]["operationMetrics"]
    assert {name: str(value) for name, value in results[1].metrics.items()} == logged
    for result in results:
        assert json.loads(json.dumps(result.to_dict())) == result.to_dict()


def test_the_result_of_create_has_the_version_of_a_new_table(tmp_path: Path) -> None:
    store, schema = open_store(tmp_path), Schema.from_arrow(ROWS.schema)
    results = [create_table(store, schema, mode=mode) for mode in ("error", "ignore", "overwrite")]
    assert [(result.read_version, result.version) for result in results] == [(None, 0), (0, None), (0, 1)]


def test_a_purge_commits_nothing_and_survives_json(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    DeltaTable(tmp_path).delete("a = 1")
    result = purge(str(tmp_path), "a = 1")
    assert (result.read_version, result.version, len(result.files)) == (1, None, 1)
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()


@pytest.mark.parametrize(
    "verb",
    [
        lambda table: table.optimize.compact(),
        lambda table: table.optimize.z_order(["a"]),
        lambda table: table.delete("a = 1"),
        lambda table: table.repair(dry_run=False),
    ],
    ids=["compact", "z_order", "delete", "repair"],
)
def test_a_table_returns_the_keys_of_delta_rs(tmp_path: Path, verb: Any) -> None:
    answers = []
    for name, open_table in (("theirs", deltalake.DeltaTable), ("ours", DeltaTable)):
        for _ in range(2):
            deltalake.write_deltalake(tmp_path / name, ROWS, mode="append")
        answers.append(verb(open_table(tmp_path / name)))
    delta_rs_answer, our_answer = answers
    assert set(delta_rs_answer) - set(our_answer) <= PLANNER
    counts = {
        key for key, value in delta_rs_answer.items() if isinstance(value, int | list) and not key.endswith("_ms")
    }
    counts -= PLANNER | DIFFERENT
    assert {key: our_answer[key] for key in counts} == {key: delta_rs_answer[key] for key in counts}
