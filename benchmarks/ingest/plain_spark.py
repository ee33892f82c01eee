"""Plain Spark reads source files with a schema and writes Parquet, without any check: ``FOLDER OUT KIND``.

The last line of the output is the time without the start of the session, in seconds.
"""

from __future__ import annotations

import sys
import time

from benchmarks.ingest.files import SCHEMA
from benchmarks.spark_session import builder, started
from lakehouse_lib.engine.spark.columns import struct_type
from lakehouse_lib.schema import Schema


def main(folder: str, out: str, kind: str) -> None:
    session = started(builder("2g"))
    start = time.perf_counter()
    reader = session.read.schema(struct_type(Schema.from_arrow(SCHEMA)))
    reader = reader.option("header", "true") if kind == "csv" else reader
    reader.format(kind).load(folder).write.parquet(out)
    print(time.perf_counter() - start, flush=True)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
