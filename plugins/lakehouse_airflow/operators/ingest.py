"""Loading what has landed."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.job_operator import LakehouseJobOperator
from lakehouse_airflow.operators.optimize import file_size_arguments
from lakehouse_airflow.registry import load_registry


class LakehouseIngestOperator(LakehouseJobOperator):
    """Loads a registered table from its source, exactly once a file, through its schema and its quality suite.

    Returns the job's result: batches and files loaded, rows appended, rows quarantined and why.
    """

    job = "ingest"

    def __init__(self, *, table: str, **kwargs: Any) -> None:
        super().__init__(table=table, registered_only=True, **kwargs)

    def locations(self, hook: LakehouseHook) -> list[str]:
        quarantine = load_registry().table(self.table).quarantine
        return [*super().locations(hook), *([quarantine] if quarantine else [])]

    def arguments(self, hook: LakehouseHook) -> list[str]:
        table = load_registry().table(self.table)
        source = table.source
        if source is None:
            raise AirflowFailException(f"the table {self.table!r} has no source in the registry: add one to load it")
        arguments = [
            *("--table", hook.uri(self.table)),
            *("--landing", source.landing),
            *("--source", source.name),
            *("--format", source.format),
            # One token, so that a delimiter or an encoding can never be taken for an option.
            f"--delimiter={source.delimiter}",
            f"--encoding={source.encoding}",
            *("--files-per-batch", str(source.files_per_batch)),
            *("--settle-seconds", f"{source.settle_seconds:g}"),
            *("--schema", str(table.schema_file)),
            *("--quarantine", str(table.quarantine)),
            *file_size_arguments(None, table),
        ]
        if table.suite is not None:
            arguments += ["--suite", table.suite]
        if table.partition_by:
            arguments += ["--partition-by", ",".join(table.partition_by)]
        return arguments
