"""Vacuum a folder of many objects on the local disk or a real S3 server, beside delta-rs, in a new process each.

Of the objects, 70% are live files, 10% were removed twenty days ago, and 20% are old files that the log does not know.
A full vacuum lists the folder. The other kind (lite) deletes only removed files, which it reads from the log. The time
includes opening the table, and not the imports. Each run deletes from a copy by hard links, whose files and counts are
checked. The S3 server (``--s3``) serves a folder of the disk, in which the copy is made. There one more run of each
kind goes through a proxy that counts its requests.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.log.report import seconds, table
from benchmarks.process import ROOT
from tests.s3 import server

_RUNS = ("ours full", "delta-rs full", "ours lite", "delta-rs lite")
_FOLDERS = 100
_DAY = 86_400
_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "p", "type": "long", "nullable": True, "metadata": {}},
    ],
}


@dataclass(frozen=True)
class Place:
    """Where the copy of the table is made.

    Attributes:
        folder: of the copy, on the disk.
        location: of the copy, for the libraries, and their storage ``options``.
    """

    folder: Path
    location: str
    options: Mapping[str, str] = field(default_factory=dict)


def counts(objects: int) -> tuple[int, int, int]:
    """How many of the objects are live, removed and unknown to the log."""
    removed, unknown = objects // 10, objects // 5
    return objects - removed - unknown, removed, unknown


def make(home: Path, objects: int) -> Path:
    """Make the table, unless it exists."""
    root = home / f"vacuum-{objects}"
    if (root / "_delta_log" / f"{1:020}.json").exists():
        return root
    shutil.rmtree(root, ignore_errors=True)
    for folder in range(_FOLDERS):
        (root / f"p={folder}").mkdir(parents=True)
    old, removal = (time.time() - days * _DAY for days in (30, 20))
    for number in range(objects):
        path = root / _path(number)
        path.write_bytes(b"PAR1")
        os.utime(path, (old, old))
    (root / "_delta_log").mkdir()
    live, removed, _ = counts(objects)
    metadata = {
        "id": "vacuum",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(_SCHEMA),
        "partitionColumns": ["p"],
        "configuration": {},
        "createdTime": int(old * 1000),
    }
    start = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    adds = ({"add": _file(n, modificationTime=int(old * 1000))} for n in range(live + removed))
    _write_commit(root, 0, old, start, adds)
    removes = ({"remove": _file(n, deletionTimestamp=int(removal * 1000))} for n in range(live, live + removed))
    _write_commit(root, 1, removal, [{"commitInfo": {"operation": "DELETE"}}], removes)
    return root


def run(kind: str, location: str, options: dict[str, str]) -> dict[str, float]:
    """Vacuum a table in this process, and measure it."""
    who, _, mode = kind.partition(" ")
    list_calls = 0
    if who == "ours":
        from lakehouse_lib.operations.upkeep.vacuum import vacuum
        from lakehouse_lib.snapshot import load_snapshot
        from lakehouse_lib.store import open_store

        if options:
            from lakehouse_lib.store.s3 import s3_store  # noqa: F401 - the peer's import has its client for S3, too
        start = time.perf_counter()
        result = vacuum(load_snapshot(open_store(location, options)), full=mode == "full", dry_run=False)
        taken = time.perf_counter() - start
        deleted, list_calls = result.metrics["numDeletedFiles"], result.metrics["numListCalls"]
    else:
        import deltalake

        start = time.perf_counter()
        peer = deltalake.DeltaTable(location, storage_options=options or None)
        deleted = len(peer.vacuum(full=mode == "full", dry_run=False))
        taken = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": taken, "peak MB": peak, "deleted": deleted, "list calls": list_calls}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance.vacuum", description=__doc__)
    parser.add_argument("--objects", type=int, help="objects of the folder (1,000,000; on the S3 server 100,000)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind; the median counts (%(default)s)")
    parser.add_argument("--home", type=Path, default=ROOT / ".bench", help="folder of the tables (default: .bench)")
    parser.add_argument("--s3", action="store_true", help="on an S3 server (make .peers/bin/versitygw)")
    parser.add_argument("--in-this-process", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.in_this_process:
        kind, location, storage_options = options.in_this_process
        print(json.dumps(run(kind, location, json.loads(storage_options))))
        return 0
    objects = options.objects or (100_000 if options.s3 else 1_000_000)
    if options.rounds < 1 or objects < _FOLDERS:
        parser.error(f"expected at least 1 round and {_FOLDERS} objects")
    if options.s3 and not server.is_installed():
        parser.error("the S3 server is not built; run make .peers/bin/versitygw")
    home = options.home.resolve()
    source = make(home, objects)
    copy = home / "vacuum-copy"
    calls: dict[str, str] = {}
    with ExitStack() as stack:
        place = Place(copy, str(copy))
        if options.s3:
            shutil.rmtree(home / "vacuum-s3", ignore_errors=True)
            stack.callback(shutil.rmtree, home / "vacuum-s3", ignore_errors=True)
            gateway = stack.enter_context(server.running(home / "vacuum-s3"))
            place = Place(gateway.objects / "bucket/copy", "s3://bucket/copy", gateway.options)
        measured: dict[str, list[dict[str, float]]] = {kind: [] for kind in _RUNS}
        for _ in range(options.rounds):
            for kind in _RUNS:
                measured[kind].append(_measure(kind, source, place, objects))
        if options.s3:
            proxy = stack.enter_context(server.Proxy(gateway.port))
            by_proxy = Place(place.folder, place.location, server.options_of(proxy.url))
            for kind in _RUNS:
                proxy.counted()
                _measure(kind, source, by_proxy, objects)
                calls[kind] = ", ".join(f"{number:,} {verb}" for verb, number in proxy.counted().items())
    titles = ["", "time", "peak MB", "deleted", "requests" if options.s3 else "list calls"]
    rows = []
    for kind, runs in measured.items():
        median: dict[str, Any] = {name: statistics.median(item[name] for item in runs) for name in runs[0]}
        listed = f"{median['list calls']:,.0f}" if kind.startswith("ours") else "-"
        deleted = f"{median['deleted']:,.0f}"
        rows.append([kind, seconds(median["seconds"]), f"{median['peak MB']:,.0f}", deleted, calls.get(kind, listed)])
    where = "on an S3 server" if options.s3 else "on the disk"
    print(f"{objects:,} objects in {_FOLDERS} folders {where}, median of {options.rounds}:\n")
    print(table(titles, rows))
    return 0


def _measure(kind: str, source: Path, place: Place, objects: int) -> dict[str, float]:
    """Run a kind on a copy of the table, and check what it leaves."""
    shutil.rmtree(place.folder, ignore_errors=True)
    shutil.copytree(source, place.folder, copy_function=os.link)
    command = [sys.executable, "-m", "benchmarks.maintenance.vacuum"]
    command += ["--in-this-process", kind, place.location, json.dumps(dict(place.options))]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout
    measured: dict[str, float] = json.loads(output)
    live, removed, unknown = counts(objects)
    expected = removed + (unknown if kind.endswith("full") else 0)
    left = sum(len(files) for folder, _, files in os.walk(place.folder) if not folder.endswith("_delta_log"))
    is_there = (place.folder / _path(live - 1)).exists()
    if (measured["deleted"], left) != (expected, objects - expected) or not is_there:
        raise SystemExit(
            f"{kind} deleted {measured['deleted']} files and left {left}; expected {expected} deleted files"
        )
    shutil.rmtree(place.folder)
    return measured


def _path(number: int) -> str:
    return f"p={number % _FOLDERS}/part-{number:08d}-3f1c7a52-77d2-4b5b-9f0e-a5a1c0de0000-c000.snappy.parquet"


def _file(number: int, **fields: Any) -> dict[str, Any]:
    path, partition = _path(number), {"p": str(number % _FOLDERS)}
    return {"path": path, "partitionValues": partition, "size": 4, "dataChange": True, **fields}


def _write_commit(
    root: Path, version: int, moment: float, start: Sequence[dict[str, Any]], actions: Iterator[dict[str, Any]]
) -> None:
    path = root / "_delta_log" / f"{version:020}.json"
    with path.open("w") as log:
        for action in chain(start, actions):
            log.write(json.dumps(action) + "\n")
    os.utime(path, (moment, moment))


if __name__ == "__main__":
    sys.exit(main())
