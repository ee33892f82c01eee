"""Erasing a person: find the rows, delete them, purge the files that still hold them, prove that none is left.

What is found is kept in the XCom of the task that looked: once the orders are gone, nobody could say which line items
were theirs, and a run that broke off in between could not be finished. What arrives while a person is asked has keys of
its own; the delete looks again, and does not begin where it finds some.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Param, timezone
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow.approval import require_approval
from lakehouse_airflow.arrivals import arrived, has_gone, moved
from lakehouse_airflow.failures import as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.change_events import VERSIONS_KEY
from lakehouse_airflow.operators.job_operator import SubmitOperator
from lakehouse_airflow.registry import load_registry

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.privacy.erasure import Located
    from lakehouse_lib.privacy.purge import Proof

_LARGEST_LONG = 2**63 - 1
# Of records that mention a person, in XCom and in the question to approve.
_MOST_PLACES = 20

# Never from the first task: with the rows deleted, it would not find their keys again, nor what the disk still holds.
_CLEAR_FROM_DELETE = "clear this run from its delete on, which deletes them or says what to do"
LANDING_NOTE = "Landing files are not erased, and how many of them hold the person's rows is not counted"


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

    Returns ``{"subject", "id", "erase_mentions", "found_at", "tables": {table: place}}``, a place being
    ``{"uri", "predicate", "rows", "files", "on_disk", "unattributed"}``.
    The predicate holds the keys that were found; ``rows`` and ``files`` count the latest version, ``on_disk``
    (``{"rows", "files_with_rows", "files", "unreadable"}``) every Parquet file in the folder. ``unattributed`` (None
    where there are none) are the records of which no key says whose they are (``{"predicate", "records", "mentions",
    "mentions_predicate", "places", "erased"}``, see lakehouse_lib.privacy.unattributed; the first places only). Leaves
    the tables' versions for LakehousePublishOperator.

    Args:
        subject: a subject of the registry.
        subject_id: whom (templated); checked again, whatever the DAG's param has let through.
        erase_mentions: take the records that mention the person for theirs (templated).
    """

    template_fields: Sequence[str] = ("subject_id", "erase_mentions")
    ui_color = "#fce8e6"

    def __init__(
        self,
        *,
        subject: str,
        subject_id: int | str,
        erase_mentions: bool | str = False,
        lakehouse_conn_id: str = LakehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.subject = subject
        self.subject_id = subject_id
        self.erase_mentions = erase_mentions
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        with as_task_failure():
            from lakehouse_lib.privacy.purge import prove
            from lakehouse_lib.privacy.subject import subject_from_config

            configured = load_registry().subject(self.subject)
            identifier = subject_from_config(configured.model_dump(exclude_none=True)).value(self.subject_id)
            if isinstance(identifier, int) and identifier < 1:
                raise AirflowFailException(f"{identifier} is no {self.subject}: an id is an integer from 1 on")
            hook = LakehouseHook(self.lakehouse_conn_id)
            context["ti"].xcom_push(VERSIONS_KEY, {table: hook.version(table) for table in configured.tables()})
            erase_mentions = str(self.erase_mentions).lower() == "true"  # a template renders to text
            tables = _find(hook, self.subject, identifier, erase_mentions=erase_mentions)
            for table, place in tables.items():
                proof = prove(place["uri"], place["predicate"], storage_options=hook.storage_options(table))
                place["on_disk"] = _counts(proof)
        return {
            "subject": self.subject,
            "id": identifier,
            "erase_mentions": erase_mentions,
            "found_at": timezone.utcnow().isoformat(),
            "tables": tables,
        }


class LakehouseEraseOperator(SubmitOperator):
    """Deletes a person's rows from tables, in one Spark application, once a person has approved.

    It looks again first: an order that came since would go, and its line items, of which nobody has found the keys,
    would stay for good. A retry finds fewer keys, because some rows are deleted already; that is no obstacle.

    Returns ``{"job", "tables": [{"table" (URI), "version", "metrics"}]}``, without those in which no row was found.

    Args:
        tables: names in the registry, in the order in which rows are deleted.
        located_by: task id of the LakehouseLocateSubjectOperator.
        approved_by: task id of the ApprovalOperator, whose answer is verified here.

    Raises:
        AirflowFailException: rows have arrived that nobody was asked about, or the registry has a table somewhere else
            by now. Nothing is deleted.
    """

    job = "erase"
    ui_color = "#fce8e6"

    def __init__(self, *, tables: Sequence[str], located_by: str, approved_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tables = tuple(tables)
        self.located_by = located_by
        self.approved_by = approved_by
        self._found: list[dict[str, str]] = []

    def execute(self, context: Context) -> dict[str, Any]:
        located = _located(context, self.located_by)
        asked_after = located.get("found_at")  # a run may have been waiting since before there was one
        self.log.info("approved by %s", require_approval(context, self.approved_by, asked_after=asked_after))
        hook = LakehouseHook(self.lakehouse_conn_id)
        with as_task_failure():
            _require_same_places(located, f"and this try has deleted nothing; run it again from {self.located_by}")
            self._require_nothing_new(hook, located)
            # A quarantine into which nothing was put is not there.
            places = [located["tables"][table] for table in self.tables if table in located["tables"]]
            self._found = [
                {"table": place["uri"], "predicate": place["predicate"]} for place in places if _has_rows(hook, place)
            ]
        return super().execute(context) if self._found else {"job": self.job, "tables": []}

    def _require_nothing_new(self, hook: LakehouseHook, located: Mapping[str, Any]) -> None:
        erase_mentions = located.get("erase_mentions", False)  # as above
        now = _find(hook, located["subject"], located["id"], erase_mentions=erase_mentions)
        tables = arrived(located["tables"], now)
        if not tables:
            return
        person = f"{located['subject']} {located['id']}"
        advice = f"run it again from {self.located_by}"
        if has_gone(located["tables"], now):
            # Looking anew in this run would forget them, and with them what the disk still holds.
            advice = (
                f"keys that this run found are gone from the tables, and it alone still knows them: erase {person} in "
                f"another run, and then clear this one from its {self.task_id} on"
            )
        raise AirflowFailException(
            f"rows have arrived since {self.located_by} looked for {person} ({', '.join(tables)}), and this try has "
            f"deleted nothing; {advice}"
        )

    def locations(self, hook: LakehouseHook) -> list[str]:  # noqa: ARG002
        return [found["table"] for found in self._found]

    def arguments(self, hook: LakehouseHook, scratch: Path) -> list[str]:  # noqa: ARG002
        # Through a file: thousands of keys do not fit a command line, and command lines are logged.
        file = scratch / "deletes.json"
        file.write_text(json.dumps(self._found), encoding="utf-8")
        return ["--deletes-file", str(file)]


class LakehousePurgeOperator(BaseOperator):
    """Deletes from disk the files that no longer belong to the tables and still hold the person's rows.

    Versions of the tables that need one of these files cannot be read any more; that is what erasing means.

    Args:
        located_by, approved_by: as for LakehouseEraseOperator.
        lakehouse_conn_id: by which the tables' stores are reached.

    Returns:
        {table: {"files", "rows", "bytes", "versions_lost", "kept"}}; ``kept`` counts files that may be those of a
        writer still at work.
    """

    ui_color = "#fce8e6"

    def __init__(
        self,
        *,
        located_by: str,
        approved_by: str,
        lakehouse_conn_id: str = LakehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.located_by = located_by
        self.approved_by = approved_by
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        located = _located(context, self.located_by)
        require_approval(context, self.approved_by, asked_after=located.get("found_at"))
        hook = LakehouseHook(self.lakehouse_conn_id)
        purged = {}
        with as_task_failure():
            from lakehouse_lib.errors import RetentionError
            from lakehouse_lib.privacy.purge import purge

            for table, found in located["tables"].items():
                options = hook.storage_options(found["uri"])
                try:
                    report = purge(found["uri"], found["predicate"], storage_options=options)
                except RetentionError as error:
                    raise AirflowFailException(
                        f"RetentionError: {error}. Where rows came after the delete: {_CLEAR_FROM_DELETE}"
                    ) from None
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
        lakehouse_conn_id: by which the tables' stores are reached.

    Returns:
        ``{"subject", "id", "tables": {table: {"before", "after"}}, "unattributed": {table: {"records", "mentions"}},
        "notes"}``; ``before`` and ``after`` count as ``on_disk`` of the first task does, ``unattributed`` what is left
        in the files on disk that no key attributes to anybody. The notes say what else may hold the person.

    Raises:
        AirflowFailException: a row is left, or the registry has a table somewhere else by now.
    """

    ui_color = "#fce8e6"

    def __init__(
        self, *, located_by: str, lakehouse_conn_id: str = LakehouseHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.located_by = located_by
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        located = _located(context, self.located_by)
        hook = LakehouseHook(self.lakehouse_conn_id)
        tables, left, notes, unattributed = {}, [], set(), {}
        with as_task_failure():
            from lakehouse_lib.privacy.purge import prove

            _require_same_places(located, "where nobody has looked; erase them there in another run")
            for table, found in located["tables"].items():
                options = hook.storage_options(found["uri"])
                proof = prove(found["uri"], found["predicate"], storage_options=options)
                tables[table] = {"before": found["on_disk"], "after": _counts(proof)}
                notes.add(proof.note)
                unknown = found["unattributed"]
                if unknown is not None:
                    records, mentions = (
                        prove(found["uri"], unknown[which], storage_options=options).rows
                        for which in ("predicate", "mentions_predicate")
                    )
                    if records:
                        unattributed[table] = {"records": records, "mentions": mentions}
                        notes.add(
                            f"{table}: nobody can say by a key whose {records} records are, and they are not erased; "
                            f"{mentions} of them mention the {located['subject']}. They are those WHERE "
                            f"{unknown['predicate']}"
                        )
                if not proof.clean:
                    left.append(f"{table}: {proof.rows} rows, {len(proof.unreadable)} files that cannot be read")
        if left:
            raise AirflowFailException(
                f"{located['subject']} {located['id']} is not erased from disk ({'; '.join(left)}): "
                f"{_CLEAR_FROM_DELETE}. Files of a writer still at work can be purged an hour later"
            )
        notes.add(LANDING_NOTE)
        for note in sorted(notes):
            self.log.warning(note)
        return {
            "subject": located["subject"],
            "id": located["id"],
            "tables": tables,
            "unattributed": unattributed,
            "notes": sorted(notes),
        }


def _find(hook: LakehouseHook, name: str, subject_id: int | str, *, erase_mentions: bool) -> dict[str, dict[str, Any]]:
    """What is found of a subject now: {table: place}, without ``on_disk``."""
    from lakehouse_lib.privacy.erasure import locate
    from lakehouse_lib.privacy.subject import subject_from_config

    configured = load_registry().subject(name)
    uris = {table: hook.uri(table) for table in configured.places()}
    options = {table: hook.storage_options(table) for table in uris}
    subject = subject_from_config(configured.model_dump(exclude_none=True))
    found = locate(subject, subject_id, uris, storage_options=options)
    by_table = groupby(sorted(found, key=attrgetter("table")), key=attrgetter("table"))
    return {table: _in_one(places, erase_mentions=erase_mentions) for table, places in by_table}


def _has_rows(hook: LakehouseHook, place: Mapping[str, Any]) -> bool:
    """Whether a table has to be deleted from: it had rows, perhaps hidden in live files, or there are some by now.

    Line items may come after their order is gone; then only the keys of this run lead to them.
    """
    from lakehouse_lib.privacy.purge import prove

    if place["rows"] or place["on_disk"]["rows"]:
        return True
    return prove(place["uri"], place["predicate"], storage_options=hook.storage_options(place["uri"])).rows > 0


def _in_one(places: Iterable[Located], *, erase_mentions: bool) -> dict[str, Any]:
    """What was found in one table, however many keys lead to it; a row that two keys lead to counts twice."""
    found = list(places)
    unknown = [place.unattributed for place in found if place.unattributed is not None and place.unattributed.records]
    mentioning = [one for one in unknown if one.mentions]
    predicates = [place.predicate for place in found]
    if erase_mentions:
        predicates += [one.mentions_predicate for one in mentioning]
    in_one: dict[str, Any] = {
        "uri": found[0].uri,
        "predicate": _any_of(predicates),
        "rows": sum(place.rows for place in found) + erase_mentions * sum(one.mentions for one in mentioning),
        "files": sum(place.files for place in found),
        "unattributed": None,
    }
    if unknown:
        in_one["unattributed"] = {
            # Each key has those of its own, and those without any column are among all of them.
            "predicate": _any_of([one.predicate for one in unknown]),
            "records": max(one.records for one in unknown),
            "mentions": max(one.mentions for one in unknown),
            "mentions_predicate": _any_of([one.mentions_predicate for one in unknown]),
            "places": sorted({place for one in unknown for place in one.places})[:_MOST_PLACES],
            "erased": erase_mentions,
        }
    return in_one


def _any_of(predicates: Sequence[str]) -> str:
    return " OR ".join(f"({predicate})" for predicate in predicates) if len(predicates) > 1 else predicates[0]


def _counts(proof: Proof) -> dict[str, int]:
    return {
        "rows": proof.rows,
        "files_with_rows": len(proof.matches),
        "files": proof.files,
        "unreadable": len(proof.unreadable),
    }


def _require_same_places(located: Mapping[str, Any], then: str) -> None:
    """A table that the registry has somewhere else by now holds the person there, whatever is deleted where it was.

    Raises:
        AirflowFailException: names the tables, and says what to do ``then``.
    """
    registry = load_registry()
    entries = {table: registry.find(table) for table in located["tables"]}
    places = moved(located["tables"], {table: entry.uri for table, entry in entries.items() if entry is not None})
    if places:
        raise AirflowFailException(
            f"the registry has tables of {located['subject']} {located['id']} in another place than when they were "
            f"looked for ({'; '.join(places)}), {then}"
        )


def _located(context: Context, task_id: str) -> Mapping[str, Any]:
    located = context["ti"].xcom_pull(task_ids=task_id)
    if not isinstance(located, Mapping):
        raise AirflowFailException(f"the task {task_id!r} of this run has not found anybody; run it first")
    return located
