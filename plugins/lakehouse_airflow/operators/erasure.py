"""Erasing a person: find the rows, delete them, purge the files that still hold them, prove that none is left.

What is found is kept in the XCom of the task that looked: once the orders are gone, nobody could say which line items
were theirs, and a run that broke off in between could not be finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Param
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow.approval import require_approval
from lakehouse_airflow.failures import as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.change_events import VERSIONS_KEY
from lakehouse_airflow.operators.delete_rows import LakehouseDeleteRowsOperator
from lakehouse_airflow.registry import load_registry

if TYPE_CHECKING:
    from airflow.sdk import Context

_LARGEST_LONG = 2**63 - 1


def subject_param(subject: str) -> Param:
    """The DAG param for a subject's id, checked by Airflow: an integer from 1 on, or a text that is not empty.

    Raises:
        RegistryError: no such subject.
    """
    title = f"Id of the {subject} to erase"
    if load_registry().subject(subject).id_type == "long":
        return Param(type="integer", minimum=1, maximum=_LARGEST_LONG, title=title)
    return Param(type="string", minLength=1, title=title)


class _ErasureOperator(BaseOperator):
    ui_color = "#fce8e6"

    def __init__(self, *, lakehouse_conn_id: str = LakehouseHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lakehouse_conn_id = lakehouse_conn_id


class LakehouseLocateSubjectOperator(_ErasureOperator):
    """Finds a person's rows in every table that the registry names for that kind of person.

    Returns ``{"subject", "id", "tables": {table: {"predicate", "rows", "files", "on_disk"}}}``: the predicate holds the
    keys that were found, ``rows`` and ``files`` count the latest version, ``on_disk`` every file in the folder.
    Leaves the tables' versions for LakehousePublishOperator.

    Args:
        subject: a subject of the registry.
        subject_id: whom (templated); checked again, whatever the DAG's param has let through.
    """

    template_fields: Sequence[str] = ("subject_id",)

    def __init__(self, *, subject: str, subject_id: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.subject = subject
        self.subject_id = subject_id

    def execute(self, context: Context) -> dict[str, Any]:
        with as_task_failure():
            from lakehouse_lib.privacy import locate, prove, subject_from_config

            configured = load_registry().subject(self.subject)
            subject = subject_from_config(configured.model_dump(exclude_none=True))
            identifier = subject.value(self.subject_id)
            if isinstance(identifier, int) and identifier < 1:
                raise AirflowFailException(f"{identifier} is no {self.subject}: an id is an integer from 1 on")
            hook = LakehouseHook(self.lakehouse_conn_id)
            uris = {table: hook.uri(table) for table in configured.tables()}
            context["ti"].xcom_push(VERSIONS_KEY, {table: hook.version(table) for table in uris})
            tables = {}
            for found in locate(subject, identifier, uris):
                tables[found.table] = {
                    "predicate": found.predicate_sql,
                    "rows": found.rows,
                    "files": found.files,
                    "on_disk": prove(uris[found.table], found.predicate_sql).to_dict(),
                }
        return {"subject": self.subject, "id": identifier, "tables": tables}


class LakehouseEraseOperator(LakehouseDeleteRowsOperator):
    """Deletes a person's rows from one table, once a person has approved.

    Args:
        table: its name in the registry.
        located_by: task id of the LakehouseLocateSubjectOperator.
        approved_by: task id of the ApprovalOperator, whose answer is verified here.
    """

    template_fields: Sequence[str] = ("table",)

    def __init__(self, *, located_by: str, approved_by: str, **kwargs: Any) -> None:
        super().__init__(predicate="", **kwargs)
        self.located_by = located_by
        self.approved_by = approved_by

    def execute(self, context: Context) -> dict[str, Any]:
        self.log.info("approved by %s", require_approval(context, self.approved_by))
        found = located_tables(context, self.located_by)[self.table]
        if not found["rows"]:
            return {"job": self.job, "table": self.table, "rows_deleted": 0}
        self.predicate = found["predicate"]
        return super().execute(context)


class LakehousePurgeOperator(_ErasureOperator):
    """Deletes from disk the files that no longer belong to the tables and still hold the person's rows.

    Versions of the tables that need one of these files cannot be read any more; that is what erasing means.

    Args:
        located_by, approved_by: as for LakehouseEraseOperator.

    Returns:
        {table: what was purged}.
    """

    def __init__(self, *, located_by: str, approved_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.located_by = located_by
        self.approved_by = approved_by

    def execute(self, context: Context) -> dict[str, Any]:
        require_approval(context, self.approved_by)
        with as_task_failure():
            from lakehouse_lib.privacy import purge

            hook = LakehouseHook(self.lakehouse_conn_id)
            return {
                table: purge(hook.uri(table), found["predicate"]).to_dict()
                for table, found in located_tables(context, self.located_by).items()
            }


class LakehouseErasureReportOperator(_ErasureOperator):
    """Counts the person's rows in every file on disk, before and after, and fails when one is left.

    Args:
        located_by: as for LakehouseEraseOperator.

    Returns:
        ``{"subject", "id", "tables": {table: {"before", "after"}}}``, each a count as ``on_disk`` of the first task.
    """

    def __init__(self, *, located_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.located_by = located_by

    def execute(self, context: Context) -> dict[str, Any]:
        located = _located(context, self.located_by)
        with as_task_failure():
            from lakehouse_lib.privacy import prove

            hook = LakehouseHook(self.lakehouse_conn_id)
            tables = {
                table: {"before": found["on_disk"], "after": prove(hook.uri(table), found["predicate"]).to_dict()}
                for table, found in located["tables"].items()
            }
        left = {table: counts["after"]["rows"] for table, counts in tables.items() if counts["after"]["rows"]}
        if left:
            raise AirflowFailException(
                f"rows of {located['subject']} {located['id']} are left on disk: "
                + ", ".join(f"{rows} in {table}" for table, rows in left.items())
                + ". Clear the run from its first delete task on"
            )
        return {"subject": located["subject"], "id": located["id"], "tables": tables}


def located_tables(context: Context, task_id: str) -> dict[str, dict[str, Any]]:
    """What ``task_id``, a LakehouseLocateSubjectOperator of this DAG run, has found in each table."""
    return dict(_located(context, task_id)["tables"])


def _located(context: Context, task_id: str) -> Mapping[str, Any]:
    located = context["ti"].xcom_pull(task_ids=task_id)
    if not isinstance(located, Mapping):
        raise AirflowFailException(f"the task {task_id!r} of this run has not found anybody; run it first")
    return located
