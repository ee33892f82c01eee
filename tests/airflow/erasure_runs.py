"""One run of the erasure's tasks in this process without Spark, with answers as Airflow passes them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import TaskAwaitingInput
from deltalake import DeltaTable as Peer
from deltalake import write_deltalake

from lakehouse_airflow.connections.ledger import open_ledger
from lakehouse_airflow.erasure.plan import places_of
from lakehouse_airflow.operators.base.approval import LakehouseApprovalOperator
from lakehouse_airflow.operators.erasure.approval import LakehouseErasureApprovalOperator
from lakehouse_airflow.operators.erasure.erase import LakehouseEraseOperator, LakehousePurgeOperator
from lakehouse_airflow.operators.erasure.locate import LakehouseLocateSubjectOperator
from lakehouse_airflow.operators.erasure.report import LakehouseErasureReportOperator
from lakehouse_airflow.registry import load_registry
from lakehouse_lib import DeltaTable
from lakehouse_lib.ledger import Ledger
from lakehouse_lib.privacy.places import Place
from tests.peers import parquet_files
from tests.table_builder import longs

TASKS = {"subject": "customer", "located_by": "locate", "approved_by": "approve"}
ANN = {"id": "ann", "name": "ann"}


class JobInThisProcess:
    """The job ``erase`` without Spark: the same deletes, in the same order."""

    partial_result = None

    def __init__(self, job: str, arguments: list[str], *, private_files: dict[str, str], **_: Any) -> None:
        self.deletes = json.loads(private_files["--deletes-file"])

    def run(self) -> dict[str, Any]:
        tables = []
        for each in self.deletes:
            table = DeltaTable(each["table"])
            metrics = table.delete(each["predicate"], label=f"erasure {each['request']}")
            rows = {"numDeletedRows": metrics["num_deleted_rows"]}
            tables.append({"table": each["table"], "version": table.version(), "metrics": rows})
        return {"job": "erase", "tables": tables}


def ledger() -> Ledger:
    """The registry's ledger."""
    return open_ledger(load_registry())


def put_hitl_detail(**_: Any) -> None:
    """Replaces Airflow's function, because there is no supervisor here that receives the question."""


def asked_by(operator: LakehouseApprovalOperator, context: Any) -> dict[str, Any]:
    """Run an approval until it waits; returns the kwargs that Airflow keeps with the waiting task."""
    with pytest.raises(TaskAwaitingInput) as waiting:
        operator.execute(context)
    assert waiting.value.method_name == "execute_complete"
    return dict(json.loads(json.dumps(waiting.value.kwargs)))


def answer_to(option: str, by: Any) -> dict[str, Any]:
    """The event with which Airflow resumes the task that asked."""
    now = datetime.now(UTC)
    answer = {"chosen_options": [option], "params_input": {}, "responded_at": now, "responded_by_user": by}
    return answer | {"timedout": False}


class Run:
    """A run of the DAG for customer 2, triggered by bob. It is also the task instance in the context."""

    dag_id, task_id, map_index, try_number = "lakehouse_erasure_customer", "delete", -1, 1

    def __init__(
        self, customer: Any = 2, *, erase_mentions: Any = False, run_id: str = "", user: str | None = "bob"
    ) -> None:
        self.left: dict[str, Any] = {}
        run = SimpleNamespace(
            dag_id="lakehouse_erasure_customer", run_id=run_id or f"manual__{uuid.uuid4()}", triggering_user_name=user
        )
        self.run_id = run.run_id
        params = {"customer_id": customer, "erase_mentions": erase_mentions}
        self.context: Any = {"ti": self, "task_instance": self, "dag_run": run, "params": params}

    @property
    def id(self) -> uuid.UUID:
        return uuid.UUID(int=0)

    def xcom_push(self, key: str, value: Any) -> None: ...

    def xcom_pull(self, task_ids: str, map_indexes: int = -1) -> Any:
        return self.left.get(task_ids)

    @property
    def request(self) -> str:
        return str(self.left["locate"]["request"])

    def plan(self) -> dict[str, Any]:
        return ledger().read(self.request, "plan")

    def places(self) -> dict[str, Place]:
        return places_of(ledger(), self.plan())[1]

    def locate(self) -> dict[str, dict[str, Any]]:
        """Locate the person, let ann approve, and return the plan's entries by table."""
        entries = self.look()
        self.answer()
        return entries

    def look(self) -> dict[str, dict[str, Any]]:
        locate = LakehouseLocateSubjectOperator(task_id="locate", subject="customer")
        self.left["locate"] = json.loads(json.dumps(locate.execute(self.context)))
        return {entry["table"]: entry for entry in self.plan()["tables"]}

    def approval(self) -> LakehouseErasureApprovalOperator:
        return LakehouseErasureApprovalOperator(task_id="approve", subject="customer", located_by="locate")

    def answer(self, option: str = "Approve", *, by: Any = ANN, **event: Any) -> dict[str, Any]:
        """Ask the question and answer it."""
        operator = self.approval()
        kwargs = asked_by(operator, self.context)
        self.left["approve"] = left = operator.execute_complete(self.context, answer_to(option, by) | event, **kwargs)
        return dict(left)

    def delete(self) -> dict[str, int]:
        """Delete the rows; returns the number of deleted rows of each table with a delete."""
        done = LakehouseEraseOperator(task_id="delete", **TASKS).execute(self.context)
        return {Path(each["table"]).name: each["metrics"]["numDeletedRows"] for each in done["tables"]}

    def purge(self) -> dict[str, Any]:
        return LakehousePurgeOperator(task_id="purge", **TASKS).execute(self.context)

    def report(self) -> dict[str, Any]:
        return LakehouseErasureReportOperator(task_id="report", **TASKS).execute(self.context)

    def finish(self) -> dict[str, Any]:
        self.delete()
        self.purge()
        return self.report()


def edit(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a document of the ledger without a new seal, as a user who can write to the folder and has no key."""
    body = json.loads(file.read_text())
    change(body["document"])
    file.write_text(json.dumps(body))


def append(table: Path, **columns: list[int]) -> None:
    write_deltalake(table, longs(**columns), mode="append")


def refuse(tables: Path, order: str, customer: str) -> None:
    """Put an order into quarantine."""
    texts = {"o_orderkey": order, "o_custkey": customer, "_source": "shop", "_file": "1.csv"}
    texts |= dict.fromkeys(("_column", "_rule", "_raw"))
    rows = {name: pa.array([value], pa.string()) for name, value in texts.items()}
    write_deltalake(tables / "orders_quarantine", pa.table(rows | {"_line": pa.array([2], pa.int64())}), mode="append")


def on_disk(table: Path) -> list[int]:
    return sorted(pa.concat_arrays(pa.parquet.read_table(f)[0].combine_chunks() for f in parquet_files(table)).tolist())


def versions(tables: Path) -> dict[str, int]:
    return {table.name: Peer(str(table)).version() for table in sorted(tables.iterdir())}
