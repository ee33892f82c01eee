"""Every pair of the conflict table compared with delta-spark, cell by cell: part of `make interop`.

docs/transactions.md lists the differences; the test fails if there is one more or one less.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lakehouse_lib.features.computed_columns.identity_columns import MARKS_TAG
from lakehouse_lib.snapshot import Snapshot

pages = import_module("docs.conflict_table")
PEERS = Path(".peers").resolve()

#: delta-spark's exceptions by our names.
NAMES = {
    "": "",
    "ConcurrentAppendException": "ConcurrentAppendError",
    "ConcurrentDeleteReadException": "ConcurrentDeleteReadError",
    "ConcurrentDeleteDeleteException": "ConcurrentDeleteDeleteError",
    "ConcurrentTransactionException": "ConcurrentTransactionError",
    "MetadataChangedException": "MetadataChangedError",
    "ProtocolChangedException": "ProtocolChangedError",
}


@pytest.mark.timeout(3600)  # one table for each pair, which delta-spark opens in about a second
@pytest.mark.parametrize("level", pages.LEVELS)
def test_every_pair_beside_delta_spark(tmp_path: Path, level: Any) -> None:
    losers = [name for name in pages.OPERATIONS if name not in pages.UNCHECKED]
    cells = list(itertools.product(pages.OPERATIONS, losers))
    pairs = []
    for number, (winner, loser) in enumerate(cells):
        folder = tmp_path / "theirs" / str(number)
        snapshot = pages.create(folder, level)
        pairs.append(
            {
                "folder": str(folder),
                "winner": spelled(pages.OPERATIONS[winner], snapshot, "early"),
                "loser": spelled(pages.OPERATIONS[loser], snapshot, "late"),
            }
        )
    spark_outcomes = [NAMES.get(name, name) for name in raced(pairs)]
    our_outcomes = [
        pages.outcome(tmp_path / "ours" / str(number), level, pages.OPERATIONS[winner], pages.OPERATIONS[loser])
        for number, (winner, loser) in enumerate(cells)
    ]
    outcomes = zip(cells, our_outcomes, spark_outcomes, strict=True)
    assert {cell: their for cell, our, their in outcomes if our != their} == dict(pages.DIFFERENCES[level])


def spelled(operation: Any, snapshot: Snapshot, label: str) -> dict[str, Any]:
    """An operation in the form of delta-spark."""
    files = [row for part in operation.removes for row in snapshot.files.to_pylist() if f"part={part}/" in row["path"]]
    actions: list[dict[str, Any]] = [
        {
            "remove": {
                "path": row["path"],
                "deletionTimestamp": 1_700_000_000_000,
                "dataChange": operation.data_change,
                "extendedFileMetadata": True,
                "partitionValues": dict(row["partitionValues"]),
                "size": row["size"],
            }
        }
        for row in files
    ]
    actions += [{"add": operation.new_file(label, part)} for part in operation.adds]
    if operation.application is not None:
        actions.append({"txn": {"appId": operation.application, "version": 1, "lastUpdated": 1}})
    if operation.has_metadata:
        actions.append({"metaData": operation.metadata(snapshot.metadata, label).to_json()})
    # delta-spark itself adds the feature that new metadata needs, and refuses a second change of the protocol.
    if operation.feature is not None and not operation.has_metadata:
        actions.append({"protocol": operation.protocol(snapshot.protocol).to_json()})
    return {
        "reads": operation.reads,
        "application": operation.application,
        "tags": {MARKS_TAG: "true"} if operation.moves_mark else {},
        "actions": [json.dumps(action) for action in actions],
    }


def raced(pairs: list[dict[str, Any]]) -> list[str]:
    done = subprocess.run(
        [PEERS / "delta-spark/bin/python", Path(__file__).with_name("race.py"), PEERS / "delta-spark-tables"],
        input=json.dumps(pairs),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes: list[str] = json.loads(done.stdout.splitlines()[-1])
    return outcomes
