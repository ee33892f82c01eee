"""Erasing a person: find the rows, delete them, purge the files that still hold them, prove that none is left.

What is found is kept in the XCom of the task that looked: once the orders are gone, nobody could say which line items
were theirs, and a run that broke off in between could not be finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
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

    from lakehouse_lib.privacy.erasure import Located
    from lakehouse_lib.privacy.purge import Proof

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


class LakehouseLocateSubjectOperator(BaseOperator):
    """Finds a person's rows in every table that the registry names for that kind of person, and in their quarantine.

    Returns ``{"subject", "id", "tables": {table: {"uri", "predicate", "rows", "files", "on_disk"}}}``. The predicate
    holds the keys that were found; ``rows`` and ``files`` count the latest version, ``on_disk`` (``{"rows",
    "files_with_rows", "files", "unreadable"}``) every Parquet file in the folder. Leaves the tables' versions for
    LakehousePublishOperator.

    Args:
        subject: a subject of the registry.
        subject_id: whom (templated); checked again, whatever the DAG's param has let through.
    """

    template_fields: Sequence[str] = ("subject_id",)
    ui_color = "#fce8e6"

    def __init__(
        self,
        *,
        subject: str,
        subject_id: int | str,
        lakehouse_conn_id: str = LakehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.subject = subject
        self.subject_id = subject_id
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        with as_task_failure():
            from lakehouse_lib.privacy.erasure import locate
            from lakehouse_lib.privacy.purge import prove
            from lakehouse_lib.privacy.subject import subject_from_config

            configured = load_registry().subject(self.subject)
            subject = subject_from_config(configured.model_dump(exclude_none=True))
            identifier = subject.value(self.subject_id)
            if isinstance(identifier, int) and identifier < 1:
                raise AirflowFailException(f"{identifier} is no {self.subject}: an id is an integer from 1 on")
            hook = LakehouseHook(self.lakehouse_conn_id)
            context["ti"].xcom_push(VERSIONS_KEY, {table: hook.version(table) for table in configured.tables()})
            found = locate(subject, identifier, {table: hook.uri(table) for table in configured.places()})
            by_table = groupby(sorted(found, key=attrgetter("table")), key=attrgetter("table"))
            tables = {table: _in_one(places) for table, places in by_table}
            for place in tables.values():
                place["on_disk"] = _counts(prove(place["uri"], place["predicate"]))
        return {"subject": self.subject, "id": identifier, "tables": tables}


class LakehouseEraseOperator(LakehouseDeleteRowsOperator):
    """Deletes a person's rows from one table, once a person has approved.

    Args:
        table: its name in the registry.
        located_by: task id of the LakehouseLocateSubjectOperator.
        approved_by: task id of the ApprovalOperator, whose answer is verified here.
    """

    template_fields: Sequence[str] = ("table",)
    ui_color = "#fce8e6"

    def __init__(self, *, located_by: str, approved_by: str, **kwargs: Any) -> None:
        super().__init__(predicate="", **kwargs)
        self.located_by = located_by
        self.approved_by = approved_by

    def execute(self, context: Context) -> dict[str, Any]:
        self.log.info("approved by %s", require_approval(context, self.approved_by))
        found = _located(context, self.located_by)["tables"].get(self.table)
        if found is None or not found["rows"]:  # a quarantine into which nothing was put is not there
            return {"job": self.job, "table": self.table, "located_rows": 0}
        self.predicate = found["predicate"]
        return super().execute(context)


class LakehousePurgeOperator(BaseOperator):
    """Deletes from disk the files that no longer belong to the tables and still hold the person's rows.

    Versions of the tables that need one of these files cannot be read any more; that is what erasing means.

    Args:
        located_by, approved_by: as for LakehouseEraseOperator.

    Returns:
        {table: {"files", "rows", "bytes", "versions_lost", "kept"}}; ``kept`` counts files that may be those of a
        writer still at work.
    """

    ui_color = "#fce8e6"

    def __init__(self, *, located_by: str, approved_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.located_by = located_by
        self.approved_by = approved_by

    def execute(self, context: Context) -> dict[str, Any]:
        require_approval(context, self.approved_by)
        purged = {}
        with as_task_failure():
            from lakehouse_lib.privacy.purge import purge

            for table, found in _located(context, self.located_by)["tables"].items():
                report = purge(found["uri"], found["predicate"])
                purged[table] = {
                    "files": len(report.files),
                    "rows": report.rows,
                    "bytes": report.bytes,
                    "versions_lost": list(report.versions_lost),
                    "kept": len(report.kept),
                }
        return purged


class LakehouseErasureReportOperator(BaseOperator):
    """Counts the person's rows in every file on disk, before and after, and fails when one is left.

    Args:
        located_by: as for LakehouseEraseOperator.

    Returns:
        ``{"subject", "id", "tables": {table: {"before", "after"}}, "note"}``, each a count as ``on_disk`` of the first
        task; the note says what else may hold the id.
    """

    ui_color = "#fce8e6"

    def __init__(self, *, located_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.located_by = located_by

    def execute(self, context: Context) -> dict[str, Any]:
        located = _located(context, self.located_by)
        tables, left, notes = {}, [], set()
        with as_task_failure():
            from lakehouse_lib.privacy.purge import prove

            for table, found in located["tables"].items():
                proof = prove(found["uri"], found["predicate"])
                tables[table] = {"before": found["on_disk"], "after": _counts(proof)}
                notes.add(proof.note)
                if not proof.clean:
                    left.append(f"{table}: {proof.rows} rows, {len(proof.unreadable)} files that cannot be read")
        if left:
            raise AirflowFailException(
                f"{located['subject']} {located['id']} is not erased from disk ({'; '.join(left)}). Clear this run "
                "from its first delete on; files of a writer still at work can be purged an hour later"
            )
        return {"subject": located["subject"], "id": located["id"], "tables": tables, "note": " ".join(sorted(notes))}


def _in_one(places: Iterable[Located]) -> dict[str, Any]:
    """What was found in one table, however many keys lead to it; a row that two keys lead to counts twice."""
    found = list(places)
    return {
        "uri": found[0].uri,
        "predicate": " OR ".join(f"({place.predicate})" for place in found) if len(found) > 1 else found[0].predicate,
        "rows": sum(place.rows for place in found),
        "files": sum(place.files for place in found),
    }


def _counts(proof: Proof) -> dict[str, int]:
    return {
        "rows": proof.rows,
        "files_with_rows": len(proof.matches),
        "files": proof.files,
        "unreadable": len(proof.unreadable),
    }


def _located(context: Context, task_id: str) -> Mapping[str, Any]:
    located = context["ti"].xcom_pull(task_ids=task_id)
    if not isinstance(located, Mapping):
        raise AirflowFailException(f"the task {task_id!r} of this run has not found anybody; run it first")
    return located
