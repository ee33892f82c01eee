"""The operator that applies change events to a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_lib.catalogue import APPLY_CHANGES


class LakehouseApplyChangesOperator(LakehouseJobOperator):
    """Applies to a table the change events that were added to another table since the last run.

    All arguments are templated.

    Args:
        events: the table of events: a name in the registry, or a location.
        keys: the columns that identify a row.
        sequence_by: the column that orders the events of a key.
        apply_as_deletes: SQL condition on the columns of the events. An event that meets the condition deletes the row
            of its key. None: no event is a delete.
        except_columns: columns of the events that are not columns of the table.
        ignore_null_updates: whether the row keeps its value if an event has NULL.
        stored_as_scd_type: 1: the table has the latest row of each key; 2: also the earlier rows.
        merge_schema: whether columns that only the events have are added to the table.
        deleted_keys: the table of deletions: a name in the registry, or a location; None: the location of the table
            with the suffix ``_deleted_keys``.
    """

    job = APPLY_CHANGES.name
    job_parameters = APPLY_CHANGES.parameters
    template_fields = (
        *LakehouseJobOperator.template_fields,
        "events",
        "keys",
        "sequence_by",
        "apply_as_deletes",
        "except_columns",
        "ignore_null_updates",
        "stored_as_scd_type",
        "merge_schema",
        "deleted_keys",
    )
    template_ext = (".sql",)

    def __init__(
        self,
        *,
        events: str,
        keys: Sequence[str],
        sequence_by: str,
        apply_as_deletes: str | None = None,
        except_columns: Sequence[str] = (),
        ignore_null_updates: bool = False,
        stored_as_scd_type: int = 1,
        merge_schema: bool = False,
        deleted_keys: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.events = events
        self.keys = keys
        self.sequence_by = sequence_by
        self.apply_as_deletes = apply_as_deletes
        self.except_columns = except_columns
        self.ignore_null_updates = ignore_null_updates
        self.stored_as_scd_type = stored_as_scd_type
        self.merge_schema = merge_schema
        self.deleted_keys = deleted_keys

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        return {
            "table": hook.uri(self.table),
            "events": hook.uri(self.events),
            "keys": tuple(self.keys),
            "sequence_by": self.sequence_by,
            "except_columns": tuple(self.except_columns),
            "ignore_null_updates": self.ignore_null_updates,
            "stored_as_scd_type": self.stored_as_scd_type,
            "merge_schema": self.merge_schema,
            "deleted_keys": None if self.deleted_keys is None else hook.uri(self.deleted_keys),
        }

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        return {} if self.apply_as_deletes is None else {"apply_as_deletes_file": self.apply_as_deletes}

    def opened_tables(self) -> list[str]:
        return [*super().opened_tables(), self.events, *([] if self.deleted_keys is None else [self.deleted_keys])]
