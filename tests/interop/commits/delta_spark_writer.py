"""delta-spark as one of several writers: ``python delta_spark_writer.py TABLE LEDGER STOP NUMBER SEED``.

Runs in delta-spark's own environment (`make interop-commits` creates it), not in the project's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_TESTS), str(_TESTS / "interop" / "delta_spark")]

import delta.exceptions  # noqa: E402
from commit_operations import ROWS, Ledger, Operation, operations  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from write import FAILURES, session  # noqa: E402

#: Errors after which nothing was committed; they have no common class.
REFUSALS = tuple(getattr(delta.exceptions, name) for name in delta.exceptions.__all__)


def work(spark: SparkSession, table: Path, ledger: Path, stop: Path, number: int, seed: int) -> None:
    """Write until the file ``stop`` exists."""
    writer_ledger = Ledger(ledger)
    parent = os.getppid()
    for operation in operations(number, seed):
        if stop.exists() or os.getppid() != parent:  # the parent process may be dead
            return
        writer_ledger.begin(operation)
        try:
            if do(spark, table, operation):
                writer_ledger.acknowledge(operation, None)
        except REFUSALS as error:
            writer_ledger.refuse(operation, error)
        except FAILURES as error:
            writer_ledger.fail(operation, error)


def do(spark: SparkSession, table: Path, operation: Operation) -> bool:
    """Run one operation; returns whether it has changed the table, if that is known."""
    spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", operation.name)
    if operation.kind == "append":
        spark.sql(
            f"INSERT INTO delta.`{table}` SELECT {operation.first} + id AS id, {operation.slot} + id AS slot "
            f"FROM range(0, {ROWS}, 1, 1)"
        )
        return True
    if operation.kind == "delete":
        (row,) = spark.sql(f"DELETE FROM delta.`{table}` WHERE {operation.condition}").collect()
        return int(row[0]) > 0
    spark.sql(f"OPTIMIZE delta.`{table}`")
    return False


def main(table: str, ledger: str, stop: str, number: str, seed: str) -> int:
    # The jars are where `make interop` keeps them.
    spark = session(Path(sys.prefix).parent / "delta-spark-tables")
    try:
        work(spark, Path(table), Path(ledger), Path(stop), int(number), int(seed))
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
