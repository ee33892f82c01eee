"""A process that runs verbs, requested by lines of JSON on standard input, and measures their time.

``python -m benchmarks.contestant delta-rs|arrow|spark``. A request is ``{"verb", "table", "arguments"}``; the answer is
``{"seconds", "peak_mb"}``, with the memory of this process and its children. The time includes opening the table, but
not the import of the library or the start of Spark.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq

from benchmarks.memory import Peak, family

Verb = Callable[[str, dict[str, Any]], object]


def contestant(name: str) -> Verb:
    """The function that runs a verb for this contestant."""
    if name == "delta-rs":
        from deltalake import DeltaTable

        return lambda verb, arguments: _run(DeltaTable(arguments.pop("table")), verb, arguments)
    from lakehouse_lib import ArrowEngine, SparkEngine
    from lakehouse_lib import DeltaTable as OurTable

    engine: Any = ArrowEngine() if name == "arrow" else SparkEngine(_session())
    return lambda verb, arguments: _run(OurTable(arguments.pop("table"), engine=engine), verb, arguments)


def _run(table: Any, verb: str, arguments: dict[str, Any]) -> object:
    if verb == "compact":
        return table.optimize.compact(**arguments)
    if verb == "z_order":
        return table.optimize.z_order(**arguments)
    if verb == "update":
        return table.update(**arguments)
    if verb == "merge":
        source = pq.ParquetFile(arguments["source"]).read()  # ``read_table`` would import pandas
        merger = table.merge(source, "t.order_id = s.order_id", source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()
    return table.delete(**arguments)


def _session() -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("benchmarks")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .getOrCreate()
    )
    session.range(1).count()
    return session


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps the libraries' output out of the answers
    run = contestant(sys.argv[1])
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        with Peak(family) as memory:
            start = time.perf_counter()
            run(request["verb"], {"table": request["table"], **request["arguments"]})
            seconds = time.perf_counter() - start
        print(json.dumps({"seconds": seconds, "peak_mb": memory.megabytes}), file=answers, flush=True)


if __name__ == "__main__":
    main()
