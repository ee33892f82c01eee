"""Tables to checkpoint: the table of the log's benchmarks, with different commits since its last checkpoint."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.log import tables
from benchmarks.log.contest import ROOT

#: The version that sets delta.checkpointPolicy to v2; one more commit follows.
_POLICY = tables.CHECKPOINT + tables.COMMITS + 1
#: A deletion timestamp in the year 2100, so that every checkpoint keeps the tombstone.
_LATER = 4_102_444_800_000

TITLES = {
    "classic": "classic, after a classic one",
    "full": "by the V2 spec, the first one",
    "appended": "by the V2 spec, after adding 1% new files",
    "together": "by the V2 spec, after removing 1% of the files, consecutive ones",
    "scattered": "by the V2 spec, after removing 1% of the files, every hundredth one",
}


def make(home: Path, files: int) -> dict[str, Path]:
    """The folder of each history below ``home``; a missing one is made in a new process."""
    shape = tables.Shape(files)
    folders = {name: home / f"checkpoints-{files}" / name / shape.name for name in TITLES}
    if not all(path.exists() for path in folders.values()):
        command = [sys.executable, "-m", "benchmarks.checkpoints.histories", str(home), str(files)]
        subprocess.run(command, check=True, cwd=ROOT)
    return folders


def _make(home: Path, files: int) -> None:
    shape = tables.Shape(files)
    source = tables.make(home, shape)
    unfinished = home / f"checkpoints-{files}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    table = {name: unfinished / name / shape.name for name in TITLES}
    tables.copy(source, table["classic"])
    full = tables.copy(source, table["full"])
    _commit(full, _POLICY, _policy_v2(full))
    share = files // 100
    events: dict[str, Callable[[list[str]], Sequence[dict[str, Any]]]] = {
        "appended": lambda _: _added(shape, share),
        "together": lambda paths: [_removed(path) for path in paths[files // 3 : files // 3 + share]],
        "scattered": lambda paths: [_removed(path) for path in paths[::100][:share]],
    }
    base = tables.copy(full, unfinished / "base" / shape.name)
    paths = _checkpoint(base)
    for name, event in events.items():
        _commit(tables.copy(base, table[name]), _POLICY + 1, event(paths))
    shutil.rmtree(unfinished / "base")
    shutil.rmtree(home / f"checkpoints-{files}", ignore_errors=True)
    unfinished.rename(home / f"checkpoints-{files}")


def _policy_v2(table: Path) -> list[dict[str, Any]]:
    from lakehouse_lib import DeltaTable

    metadata = dataclasses.replace(DeltaTable(table).snapshot.metadata, configuration={"delta.checkpointPolicy": "v2"})
    features = ["v2Checkpoint"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    return [{"protocol": protocol}, {"metaData": metadata.to_json()}]


def _checkpoint(table: Path) -> list[str]:
    from lakehouse_lib import DeltaTable

    opened = DeltaTable(table)
    opened.create_checkpoint()
    paths: list[str] = opened.snapshot.file_columns(["path"])["path"].to_pylist()
    return paths


def _added(shape: tables.Shape, count: int) -> list[dict[str, Any]]:
    """Add actions of new files, with the statistics of existing ones."""
    rows = tables._adds(shape._replace(parsed=False), 0, count).to_pylist(maps_as_pydicts="strict")
    bodies = [{key: value for key, value in row.items() if value is not None} for row in rows]
    return [
        {"add": body | {"path": f"part-{n % 200:05d}-{n:032x}-c000.snappy.parquet", "dataChange": True}}
        for n, body in enumerate(bodies)
    ]


def _removed(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": _LATER, "dataChange": True}}


def _commit(table: Path, version: int, actions: Sequence[dict[str, Any]]) -> None:
    lines = [{"commitInfo": {"timestamp": _LATER, "operation": "WRITE", "operationParameters": {}}}, *actions]
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    (table / "_delta_log" / f"{version:020d}.json").write_text(text + "\n")


if __name__ == "__main__":
    _make(Path(sys.argv[1]), int(sys.argv[2]))
