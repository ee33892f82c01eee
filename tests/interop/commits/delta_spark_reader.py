"""delta-spark as a reader: ``python delta_spark_reader.py TABLE``; reads a version in each line, prints its rows.

Runs in delta-spark's own environment (`make interop-commits` creates it), not in the project's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "delta_spark"))

from write import session


def main(table: str) -> int:
    # The jars are where `make interop` keeps them.
    spark = session(Path(sys.prefix).parent / "delta-spark-tables")
    try:
        for line in sys.stdin:
            rows = spark.read.format("delta").option("versionAsOf", int(line)).load(table).select("id", "slot")
            answer = {"version": int(line), "rows": [list(row) for row in rows.collect()]}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
