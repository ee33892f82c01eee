"""A process that deletes rows of a table by deletion vectors, three commits a second.

``python -m tests.marking_writer TABLE SEED COMMITS`` prints a line after its first commit. It ends after so many
commits, or at the end of its input. Then it prints one JSON line: the values of column ``k`` of the deleted rows.
"""

from __future__ import annotations

import json
import random
import select
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import open_store
from lakehouse_lib.transaction import Committed, OptimisticTransaction


def mark_one_file(snapshot: Snapshot, choice: random.Random) -> set[int]:
    """Delete a few rows of some file; returns their ``k``, or nothing after a conflict."""
    file = choice.choice(snapshot.files.to_pylist())
    before = file["deletionVector"]
    deleted = deletion_vector.load(snapshot.store, before)
    keys = pq.ParquetFile(Path(snapshot.store.root) / file["path"]).read(["k"])["k"].to_pylist()
    alive = [place for place in range(len(keys)) if place not in deleted]
    rows = choice.sample(alive, min(5, len(alive) - 1))
    (vector,) = deletion_vector.save(snapshot.store, [deleted | BitMap64(rows)])
    stats = json.dumps({**json.loads(file["stats"]), "tightBounds": False})
    transaction = OptimisticTransaction(snapshot, snapshot.store, "DELETE", {})
    transaction.remove(pa.Table.from_pylist([file], schema=snapshot.files.schema))
    marked = {**file, "deletionVector": vector, "stats": stats, "dataChange": True}
    transaction.add(pa.Table.from_pylist([marked], schema=snapshot.files.schema))
    return {keys[row] for row in rows} if isinstance(transaction.commit(), Committed) else set()


def main(root: str, seed: int, commits: int) -> None:
    choice = random.Random(seed)
    snapshot = load_snapshot(open_store(root))
    gone: set[int] = set()
    while commits and not select.select([sys.stdin], [], [], 0.3)[0]:
        snapshot = snapshot.update()
        new = mark_one_file(snapshot, choice)
        if new and not gone:
            print("started", flush=True)
        gone |= new
        commits -= bool(new)
    print(json.dumps(sorted(gone)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
