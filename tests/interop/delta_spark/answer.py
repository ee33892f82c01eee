"""Answer requests by delta-spark, one in each line: ``python answer.py FOLDER``.

Runs in delta-spark's own environment, not in the project's. An input line is a JSON text, a SQL statement, or one of
these JSON objects:

- ``{"table": ..., "expected": folder}``: store the rows of every version in the folder, as ``write.py`` does.
- ``{"query": ..., "folder": ...}``: store the rows of a query in the folder.

The output line begins with "answer: " and has JSON: the rows of a statement (times in ms since the epoch), the number
of readable versions, the name of the Arrow file with the rows of a query, or {"error": text}.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from write import FAILURES, arrow, keep, record, session


def main(folder: Path) -> None:
    spark = session(folder)
    try:
        for line in sys.stdin:
            answer: Any
            try:
                answer = answered(spark, json.loads(line))
            except FAILURES as error:
                answer = {"error": str(error)[:20000]}
            print("answer: " + json.dumps(answer, default=plain), flush=True)
    finally:
        spark.stop()


def answered(spark: SparkSession, request: Any) -> Any:
    if isinstance(request, str):
        return [row.asDict() for row in spark.sql(request).collect()]
    if "query" in request:
        return keep(arrow(spark.sql(request["query"])), Path(request["folder"]))
    return record(spark, Path(request["table"]), Path(request["expected"]), changes=False)


def plain(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else str(value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
