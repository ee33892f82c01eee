"""Run a query over Delta tables and overwrite another table with the result, once for each application version."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.catalogue.operation import Parameter
from spark_jobs.job import Result, run_job
from spark_jobs.process.command_line import Arguments, read_text_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

#: The parameters of this job. They are not in the library's catalogue, because the query is the caller's.
PARAMETERS = (
    Parameter("input", "inputs", "a table, and its name in the query", required=True),
    Parameter("sql_file", "file", "one SELECT", required=True),
    Parameter("output", "location", "the table to replace", required=True),
    Parameter("app_id", "text", "the application's id; the table's log shows it", required=True),
    Parameter(
        "app_version",
        "integer",
        "the application's version; if the table's log has this or a later version, the job does nothing",
        required=True,
    ),
)


def arguments() -> Arguments:
    return Arguments(
        "aggregate", "Run a SQL query over Delta tables and replace another table by its result.", PARAMETERS
    )


def prepare(options: Namespace) -> Callable[[SparkSession], Result] | Result:
    from lakehouse_lib import CommitProperties, DeltaTable, Transaction
    from lakehouse_lib.errors import InvalidArgumentError

    query = read_text_file(options.sql_file, "the query file")
    stores = options.storage_options
    inputs = {name: DeltaTable(uri, storage_options=stores.get(uri)) for name, uri in options.input}
    if DeltaTable.is_deltatable(options.output, stores.get(options.output)):
        output = DeltaTable(options.output, storage_options=stores.get(options.output))
        applied_version = output.transaction_version(options.app_id)
        if applied_version is not None and applied_version >= options.app_version:
            return {"table": options.output, "version": None, "read_version": output.version(), "done_before": True}

    def run(spark: SparkSession) -> Result:
        from pyspark.errors import AnalysisException, ParseException

        from lakehouse_lib.engine.incoming import incoming
        from lakehouse_lib.engine.spark.engine import SparkEngine
        from lakehouse_lib.operations.write.planned_write import Write
        from lakehouse_lib.operations.write.write import write
        from lakehouse_lib.store import open_store

        versions = {name: table.version() for name, table in inputs.items()}
        for name, table in inputs.items():
            table.to_spark(spark).createOrReplaceTempView(name)
        try:
            rows = spark.sql(query)
        except (AnalysisException, ParseException) as error:
            raise InvalidArgumentError(
                f"the query in {options.sql_file} cannot run: {str(error).partition(chr(10))[0]}",
                hint=f"The query can use the tables {', '.join(inputs)}",
            ) from error
        result = write(
            open_store(options.output, stores.get(options.output)),
            incoming(rows),
            Write(mode="overwrite", schema_mode="overwrite"),
            SparkEngine(spark),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(options.app_id, options.app_version)],
                custom_metadata={"inputVersions": versions},
            ),
        )
        return {
            "table": options.output,
            "version": result.version,
            "read_version": result.read_version,
            "done_before": False,
            "input_versions": versions,
        }

    return run


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
