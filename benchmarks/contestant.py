"""A process that runs verbs, requested by lines of JSON on standard input, and measures their time.

``python -m benchmarks.contestant delta-rs|arrow|spark|delta-spark``. A request is ``{"verb", "table", "arguments"}``;
the answer is the number of seconds. The time includes opening the table, but not the import of the library or the start
of Spark.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq

from benchmarks import delta_spark, spark_session

Verb = Callable[[str, dict[str, Any]], object]

#: The memory of a Spark session's JVM.
_DRIVER_MEMORY = "2g"


def contestant(name: str) -> Verb:
    """The function that runs a verb for this contestant."""
    if name == "delta-spark":
        session = delta_spark.session(_DRIVER_MEMORY)
        # It reads the log in 50 tasks by default, which is slow for a small table.
        session.conf.set("spark.databricks.delta.snapshotPartitions", "4")
        return lambda verb, arguments: delta_spark.run(session, verb, arguments)
    if name == "delta-rs":
        from deltalake import DeltaTable

        return lambda verb, arguments: _run(DeltaTable(arguments.pop("table")), verb, arguments)
    from lakehouse_lib import ArrowEngine, SparkEngine
    from lakehouse_lib import DeltaTable as OurTable

    engine: Any = ArrowEngine()
    if name == "spark":
        engine = SparkEngine(spark_session.started(spark_session.builder(_DRIVER_MEMORY)))
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


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps the libraries' output out of the answers
    run = contestant(sys.argv[1])
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        start = time.perf_counter()
        run(request["verb"], {"table": request["table"], **request["arguments"]})
        print(json.dumps(time.perf_counter() - start), file=answers, flush=True)


if __name__ == "__main__":
    main()
