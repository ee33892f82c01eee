"""Time rows through ``to_spark`` beside plain Spark Parquet on the same folder, alternately in one session.

``python -m benchmarks.log.scan HOME FILES ROUNDS`` prints a line of JSON. delta-rs writes the table, so that it
does not favour this library. Each run starts by opening the table or listing the folder.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
from deltalake import DeltaTable as PeerTable

from benchmarks import data
from benchmarks.spark_session import builder, started

ROWS_A_FILE = 2_000
_WARM_UP = 2
_FULL = ("sum(quantity)", "max(customer)", "count(DISTINCT status)", "count(*)")


def make(home: Path, files: int) -> Path:
    """A table of files of equal size, with ``order_id`` ascending from file to file; a missing one is made."""
    table = home / f"scan-{files}"
    if table.exists():
        return table
    unfinished = table.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    log = unfinished / "_delta_log"
    log.mkdir(parents=True)

    def write_file(number: int) -> str:
        rows = data.orders(number * ROWS_A_FILE, ROWS_A_FILE, files * ROWS_A_FILE)
        path = unfinished / f"part-{number:05d}-c000.snappy.parquet"
        pq.write_table(rows, path)
        first, last = number * ROWS_A_FILE, (number + 1) * ROWS_A_FILE - 1
        stats = {
            "numRecords": ROWS_A_FILE,
            "minValues": {"order_id": first},
            "maxValues": {"order_id": last},
            "nullCount": {"order_id": 0},
        }
        meta = path.stat()
        add = {
            "path": path.name,
            "partitionValues": {},
            "size": meta.st_size,
            "modificationTime": int(meta.st_mtime * 1000),
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        return json.dumps({"add": add})

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        adds = list(pool.map(write_file, range(files)))
    kinds = {"order_id": "long", "customer": "long", "item": "integer", "quantity": "double", "day": "date"}
    fields = [
        {"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in {**kinds, "status": "string"}.items()
    ]
    metadata = {
        "id": "0a1c7e1c-6b1f-4b59-9df0-6f6f2f1f0c12",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }
    head = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    (log / f"{0:020d}.json").write_text("\n".join([*map(json.dumps, head), *adds]) + "\n")
    PeerTable(unfinished).create_checkpoint()
    unfinished.rename(table)
    return table


def measure(spark: Any, table: Path, files: int, rounds: int) -> dict[str, Any]:
    """Run both alternately and compare the answers. Processor seconds include this process and Spark's."""
    where = f"order_id BETWEEN {files // 2 * ROWS_A_FILE} AND {(files // 2 + 2) * ROWS_A_FILE - 1}"

    def to_spark(condition: str | None) -> Any:
        from lakehouse_lib import DeltaTable

        return DeltaTable(table).to_spark(spark, filters=condition)

    def plain(condition: str | None) -> Any:
        frame = spark.read.parquet(str(table))
        return frame.where(condition) if condition else frame

    whole = {"ours": to_spark(None), "plain": plain(None)}  # planned once, so that only the scan is timed
    questions = [
        ("full aggregate, from opening the table", to_spark, plain, None),
        ("selective aggregate (2 files' rows), from opening the table", to_spark, plain, where),
        ("full aggregate of a planned DataFrame", lambda _: whole["ours"], lambda _: whole["plain"], None),
    ]
    results = []
    for title, first, second, condition in questions:
        contestants = {"ours": first, "plain": second}
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        cpu: dict[str, list[float]] = {name: [] for name in contestants}
        for turn in range(_WARM_UP + rounds):  # the first turns warm up the JVM and do not count
            answers = {}
            for name in contestants if turn % 2 else reversed(contestants):
                start, worked = time.perf_counter(), _processor_seconds()
                answers[name] = _aggregate(contestants[name], condition)
                if turn >= _WARM_UP:
                    seconds[name].append(time.perf_counter() - start)
                    cpu[name].append(_processor_seconds() - worked)
            if not _same(*answers.values()):
                raise SystemExit(f"{title}: {answers}")
        results.append({"title": title, **seconds, "cpu": cpu})
    return {"files": files, "rows": files * ROWS_A_FILE, "questions": results}


def _aggregate(frame: Callable[[str | None], Any], condition: str | None) -> list[Any]:
    return list(frame(condition).selectExpr(*_FULL).collect()[0])


def _same(first: list[Any], second: list[Any]) -> bool:
    """Whether two answers are equal, up to the last digits of a sum of doubles, which depends on the order of tasks."""
    return first[1:] == second[1:] and math.isclose(first[0], second[0], rel_tol=1e-9)


def _processor_seconds() -> float:
    process = psutil.Process()
    return sum(sum(member.cpu_times()[:2]) for member in (process, *process.children(recursive=True)))


def main(home: str, files: int, rounds: int) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps Spark's output out of the answer
    table = make(Path(home), files)
    spark = started(builder("2g"))
    print(json.dumps(measure(spark, table, files, rounds)), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
