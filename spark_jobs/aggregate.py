"""Run a query over Delta tables and overwrite another table with the result, once for each application version."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.catalogue.operation import Parameter
from spark_jobs.command_line import Arguments, read_text_file
from spark_jobs.job import Result, run_job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from lakehouse_lib import DeltaTable

#: The number of newest commits in which a run searches for its own commit.
_COMMITS = 20

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
    from lakehouse_lib import CommitProperties, DeltaTable, Transaction, write_deltalake
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

        from lakehouse_lib.engine.spark.engine import SparkEngine

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
        write_deltalake(
            options.output,
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            storage_options=stores.get(options.output),
            engine=SparkEngine(spark),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(options.app_id, options.app_version)],
                custom_metadata={"inputVersions": versions},
            ),
        )
        new_output = DeltaTable(options.output, storage_options=stores.get(options.output))
        version = _version_of(new_output, versions)
        return {
            "table": options.output,
            "version": version,
            "read_version": version - 1 if version else None,
            "done_before": False,
            "input_versions": versions,
        }

    return run


def _version_of(output: DeltaTable, inputs: Mapping[str, int]) -> int:
    """The newest version of ``output`` that was computed from these versions of its inputs.

    The latest version may be a later commit of another writer.
    """
    versions = (commit["version"] for commit in output.history(_COMMITS) if commit.get("inputVersions") == inputs)
    return int(next(versions, output.version()))


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
