"""Carry out the work orders of a maintenance plan in one Spark application, table by table."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.catalogue.operation import Parameter
from spark_jobs.job import Result, run_job
from spark_jobs.process.command_line import Arguments, read_json_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

#: The parameters of this job. They are not in the library's catalogue, because a plan has several verbs.
PARAMETERS = (
    Parameter(
        "orders_file",
        "file",
        'JSON: {"records": URI or null, "tables": [{"name", "location", "policy"}, ...], "orders": [...]}, the orders '
        "as a plan gives them",
        required=True,
    ),
)


def arguments() -> Arguments:
    return Arguments("maintain", "Carry out the work orders of a maintenance plan.", PARAMETERS)


def prepare(options: Namespace) -> Callable[[SparkSession], Result]:
    from lakehouse_lib.errors import InvalidArgumentError
    from lakehouse_lib.fleet.maintenance import carry_out
    from lakehouse_lib.fleet.planner.policy import Policy
    from lakehouse_lib.fleet.runs import RunRecord
    from lakehouse_lib.fleet.table_run import MaintainedTable
    from lakehouse_lib.fleet.work_order import WorkOrder
    from lakehouse_lib.progress import log_observer
    from lakehouse_lib.store import open_store

    stores = options.storage_options
    body = read_json_file(options.orders_file, "the file of orders")
    try:
        orders = [WorkOrder.of_dict(values) for values in body["orders"]]
        records = body["records"]
        tables = [
            MaintainedTable(
                entry["name"],
                open_store(entry["location"], stores.get(entry["location"])),
                Policy(**{**entry["policy"], **{key: tuple(entry["policy"][key]) for key in ("verbs", "cluster_by")}}),
            )
            for entry in body["tables"]
        ]
    except (KeyError, TypeError) as error:
        raise InvalidArgumentError(
            f"the file of orders {options.orders_file} is not valid: {error!r}; expected records, tables and orders",
            hint=PARAMETERS[0].help,
        ) from None

    def run(spark: SparkSession) -> Result:
        from lakehouse_lib.engine.spark.engine import SparkEngine

        record = None if records is None else RunRecord(records, stores.get(records))
        steps = carry_out(
            orders,
            tables,
            lambda: SparkEngine(spark),
            record,
            observer=lambda step: log_observer(f"{step.verb} of {step.table}"),
        )
        return {"steps": [step.to_dict() for step in steps]}

    return run


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
