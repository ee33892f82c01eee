"""The operator that loads a table's source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.connections.store_options import store_options
from lakehouse_airflow.errors import RegistryValueError
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.lineage import Lineage
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_airflow.operators.optimize import file_size
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.catalogue import INGEST

if TYPE_CHECKING:
    from airflow.sdk import Context

#: The largest number of files of earlier runs that the log names.
_MOST_LINES = 20


class LakehouseIngestOperator(LakehouseJobOperator):
    """Loads a registered table from its source, each file exactly once, with its schema and quality suite.

    Returns the job's result: the loaded batches and files, the number of appended rows, and the quarantined rows with
    their reasons.

    Args:
        refused: which refused files fail the task, after the other files are loaded (templated). ``once``: those that
            this run has refused; ``fail``: also those that an earlier run has refused; ``report``: none. None: the
            value in the registry. Files that an earlier run has refused are in the result and, as warnings, in the log.
        tables: the names of the DAG's tables; another table is refused. None: all tables of the registry.
    """

    job = INGEST.name
    job_parameters = INGEST.parameters

    template_fields: Sequence[str] = (*LakehouseJobOperator.template_fields, "refused")

    def __init__(
        self, *, table: str, refused: str | None = None, tables: Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(table=table, registered_only=True, tables=tables, **kwargs)
        self.refused = refused

    def execute(self, context: Context) -> dict[str, Any]:
        result = super().execute(context)
        refusals = result["files_refused_earlier"]
        for refusal in refusals[:_MOST_LINES]:
            self.log.warning("an earlier run has refused a file that is still there: %s", refusal["error"])
        if len(refusals) > _MOST_LINES:
            self.log.warning("%d more files of earlier runs are in the result", len(refusals) - _MOST_LINES)
        return result

    def storage_options(self, hook: LakehouseHook) -> dict[str, dict[str, str] | None]:
        table, opener = load_registry().table(self.table), hook.opener(self.table)
        source, options = table.source, super().storage_options(hook)
        if table.quarantine is not None:
            options[table.quarantine] = opener.storage_options(table.quarantine)
        if source is not None:
            source_hook = LakehouseHook(source.connection) if source.connection else opener
            landing_options = source_hook.storage_options(source.landing) or {}
            options[source.landing] = store_options(source.landing, source.storage_options, landing_options) or None
        return options

    def lineage_of(self, hook: LakehouseHook, result: Mapping[str, Any]) -> Lineage:
        source = load_registry().table(self.table).source
        landing = () if source is None else (source.landing,)
        tables = [] if result.get("version") is None else [hook.uri(self.table)]
        if tables and result.get("quarantine_version") is not None:
            tables.append(result["quarantine"])
        options = hook.storage_options(self.table) if tables else None
        return Lineage(landing, tuple(tables), result, options)

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        table = load_registry().table(self.table)
        source = table.source
        if source is None:
            raise RegistryValueError(f"the table {self.table!r} has no source in the registry; add a source")
        return {
            "table": hook.uri(self.table),
            "landing": source.landing,
            "source": source.name,
            "pattern": source.pattern,
            "format": source.format,
            "delimiter": source.delimiter,
            "quote": source.quote,
            "encoding": source.encoding,
            "no_line_breaks": not source.line_breaks,
            "no_header": not source.header,
            "null_texts": None if source.null_texts == ("",) else list(source.null_texts),
            "comment": source.comment,
            "skip_lines": source.skip_lines,
            "decimal": source.decimal,
            "time_formats": source.time_formats or None,
            "path_columns": tuple(source.path_columns),
            "evolution": source.evolution,
            "files_per_batch": source.files_per_batch,
            "bytes_per_batch": source.bytes_per_batch,
            "order": source.order,
            "settle_seconds": source.settle_seconds,
            "refused": self.refused or source.refused,
            "schema": table.schema_file,
            "quarantine": table.quarantine,
            "target_file_size": file_size(None, table),
            "suite": table.suite,
            "partition_by": tuple(table.partition_by),
        }
