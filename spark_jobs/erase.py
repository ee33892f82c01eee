"""Delete rows from several tables in one Spark application, table by table in a given order."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import DeltaError, InvalidArgumentError
from spark_jobs.delete_rows import require_predicate
from spark_jobs.job import Arguments, FailedAfterWork, Result, read_json_file, run_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def arguments() -> Arguments:
    parser = Arguments(
        "erase",
        "Delete rows from several tables in the order they are listed in. The first delete that fails is the last one; "
        "those before it stay, and to run the job again does them no harm.",
    )
    parser.add_argument(
        "--deletes-file", required=True, metavar="FILE", help='JSON: [{"table": URI, "predicate": SQL}, ...]'
    )
    return parser


def prepare(options: Namespace) -> Callable[[SparkSession], Result] | Result:
    from lakehouse_lib import DeltaTable

    deletes = _deletes(options.deletes_file)
    stores = options.storage_options
    for uri, _ in deletes:
        DeltaTable(uri, storage_options=stores.get(uri))
    if not deletes:
        return {"tables": []}

    def run(spark: SparkSession) -> Result:
        from lakehouse_lib.engine.spark import SparkEngine

        engine = SparkEngine(spark)
        done: list[dict[str, Any]] = []
        for uri, predicate in deletes:
            try:
                table = DeltaTable(uri, storage_options=stores.get(uri), engine=engine)
                metrics = table.delete(predicate)
            except DeltaError as error:
                raise FailedAfterWork(error, {"tables": done}) from error
            done.append({"table": uri, "version": table.version(), "metrics": metrics})
        return {"tables": done}

    return run


def _deletes(path: str) -> list[tuple[str, str]]:
    found = read_json_file(path, "the file of deletes")
    if not isinstance(found, list) or not all(
        isinstance(one, dict)
        and set(one) == {"table", "predicate"}
        and all(isinstance(text, str) for text in one.values())
        for one in found
    ):
        raise InvalidArgumentError(
            f"the file of deletes {path} is no list of tables and predicates",
            hint='Write [{"table": "/data/orders", "predicate": "o_custkey = 7"}]',
        )
    for one in found:
        require_predicate(one["predicate"], one["table"])
    return [(one["table"], one["predicate"]) for one in found]


def _is_delete(one: object) -> bool:
    return (
        isinstance(one, dict) and set(one) == {"table", "predicate"} and all(isinstance(t, str) for t in one.values())
    )


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
