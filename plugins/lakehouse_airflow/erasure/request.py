"""Read an approved erasure from the ledger, for the tasks that delete, purge and report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse_airflow.approval import Pointer, Run, read_plan, require_approval
from lakehouse_airflow.connections.ledger import open_ledger
from lakehouse_airflow.erasure import plan as erasure_plan
from lakehouse_airflow.errors import PlanOutdatedError, rewrite_messages
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.fleet.registry import Subject

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_airflow.hook import LakehouseHook
    from lakehouse_lib.ledger import Document, Ledger
    from lakehouse_lib.privacy.places import Place


@dataclass(frozen=True)
class Erasure:
    """An approved request for an erasure.

    Attributes:
        subject: the registry's subject, with the quarantines of its tables.
        identifier: the person's id; 0 if there is a ``record``.
        places: the person's rows by table, in the order of the deletes; empty if there is a ``record``.
        record: the request's record in the ledger if the erasure is finished, else None.
    """

    ledger: Ledger
    request: str
    plan: Document
    decision: Document
    subject: Subject
    identifier: int | str
    places: Mapping[str, Place]
    record: Document | None

    @contextmanager
    def without_keys(self) -> Iterator[None]:
        """Remove conditions and partition values, which hold the person's keys, from errors that leave the block."""
        from lakehouse_lib.privacy.partition_values import without_partition_values

        def hide_keys(text: str) -> str:
            for place in self.places.values():
                text = text.replace(place.keys.sql(), f"<keys of request {self.request}>")
            return without_partition_values(text)

        with rewrite_messages(hide_keys):
            yield

    def require_same_tables(self, hook: LakehouseHook) -> None:
        """Check that the plan's tables were not recreated.

        A table after ``CREATE OR REPLACE TABLE`` passes: it has another id, but its old files are in the same folder.

        Raises:
            AirflowFailException: tables were recreated; old files with the person's rows may be in another folder.
        """
        from lakehouse_lib.privacy.traces import table_ids

        new_tables = [
            table
            for table, place in self.places.items()
            if place.table_id not in table_ids(place.uri, place.version, storage_options=hook.storage_options(table))
        ]
        if new_tables:
            raise PlanOutdatedError(
                f"tables were recreated since request {self.request} was planned ({', '.join(new_tables)}), and the "
                "old tables may still have the person's rows in another folder; restore the old tables, or trigger the "
                "erasure again"
            )


@dataclass(frozen=True)
class ErasureTasks:
    """The subject of an erasure, and the tasks of the DAG that plan and approve it.

    Attributes:
        subject: a subject of the registry.
        located_by, approved_by: task ids of the LakehouseLocateSubjectOperator and of the
            LakehouseErasureApprovalOperator.
    """

    subject: str
    located_by: str
    approved_by: str

    def open(self, context: Context) -> Erasure:
        """The run's approved erasure.

        Raises:
            LedgerError: a document is missing, edited or sealed with another key.
            NotApprovedError: there is no valid approval of the plan that XCom points to.
            AirflowFailException: the registry has moved or dropped a table since the plan was made.
        """
        from lakehouse_lib.privacy.drift import find_moves

        registry = load_registry()
        subject = registry.subject(self.subject)
        ledger = open_ledger(registry)
        run = Run.of(context)
        pointer = Pointer.pull(context, self.located_by)
        plan = read_plan(ledger, pointer, run, erasure_plan.KIND)
        erasure_plan.require_subject(plan, self.subject)
        decision = require_approval(ledger, pointer, plan, subject, run, run.question(self.approved_by, -1))
        record = ledger.find(pointer.request, "record")
        if record is not None:
            return Erasure(ledger, pointer.request, plan, decision, subject, 0, {}, record)
        identifier, places = erasure_plan.places_of(ledger, plan)
        moves = find_moves(places, registry, self.subject)
        if moves:
            raise PlanOutdatedError(
                f"the registry has changed since request {pointer.request} was planned ({'; '.join(moves)}); this "
                "try has changed nothing; restore the registry's entries, or trigger the erasure again"
            )
        ordered = {table: places[table] for table in subject.tables() if table in places}
        return Erasure(ledger, pointer.request, plan, decision, subject, identifier, ordered, None)
