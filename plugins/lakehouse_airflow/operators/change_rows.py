"""The operators that change rows of a table: delete, update and merge."""

from __future__ import annotations

import json
from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_lib.catalogue import DELETE_ROWS, MERGE_ROWS, UPDATE_ROWS


class LakehouseDeleteRowsOperator(LakehouseJobOperator):
    """Deletes the rows for which a SQL predicate is true. Rows for which the predicate is NULL stay.

    Args:
        predicate: SQL over the table's columns (templated).
    """

    job = DELETE_ROWS.name
    job_parameters = DELETE_ROWS.parameters
    template_fields = (*LakehouseJobOperator.template_fields, "predicate")
    template_ext = (".sql",)

    def __init__(self, *, predicate: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.predicate = predicate

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        return {"table": hook.uri(self.table)}

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        return {"predicate_file": self.predicate}


class LakehouseUpdateRowsOperator(LakehouseJobOperator):
    """Sets columns to new values in the rows for which a SQL predicate is true, or in all rows.

    Args:
        updates: column -> SQL expression over the table's columns (templated).
        predicate: SQL over the table's columns (templated); None: all rows.
    """

    job = UPDATE_ROWS.name
    job_parameters = UPDATE_ROWS.parameters
    template_fields = (*LakehouseJobOperator.template_fields, "updates", "predicate")
    template_ext = (".sql",)

    def __init__(self, *, updates: dict[str, str], predicate: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.updates = updates
        self.predicate = predicate

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        return {"table": hook.uri(self.table)}

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        predicate = {} if self.predicate is None else {"predicate_file": self.predicate}
        return {"updates_file": json.dumps(self.updates), **predicate}


class LakehouseMergeRowsOperator(LakehouseJobOperator):
    """Merges the rows of another table into a table: updates, deletes and inserts, in one commit.

    All arguments are templated.

    Args:
        source: the table with the new rows: a name in the registry, or a location.
        predicate: SQL that is true for rows that match, such as ``target.id = source.id``.
        clauses: a list of clauses, such as ``{"when_matched_update_all": {}}``.
        source_alias, target_alias: the names of the tables in SQL.
        merge_schema: whether columns that only the source has are added to the table.
    """

    job = MERGE_ROWS.name
    job_parameters = MERGE_ROWS.parameters
    template_fields = (
        *LakehouseJobOperator.template_fields,
        "source",
        "predicate",
        "clauses",
        "source_alias",
        "target_alias",
        "merge_schema",
    )
    template_ext = (".sql",)

    def __init__(
        self,
        *,
        source: str,
        predicate: str,
        clauses: list[dict[str, dict[str, Any]]],
        source_alias: str = "source",
        target_alias: str = "target",
        merge_schema: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.predicate = predicate
        self.clauses = clauses
        self.source_alias = source_alias
        self.target_alias = target_alias
        self.merge_schema = merge_schema

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        return {
            "table": hook.uri(self.table),
            "source": hook.uri(self.source),
            "source_alias": self.source_alias,
            "target_alias": self.target_alias,
            "merge_schema": self.merge_schema,
        }

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        return {"predicate_file": self.predicate, "clauses_file": json.dumps(self.clauses)}

    def opened_tables(self) -> list[str]:
        return [*super().opened_tables(), self.source]
