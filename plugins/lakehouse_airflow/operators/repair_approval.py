"""The operator that asks for the approval of a repair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSkipException
from airflow.sdk import timezone

from lakehouse_airflow.approval import Pointer, Run, map_index
from lakehouse_airflow.errors import NotApprovedError
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.markdown import code
from lakehouse_airflow.operators.base.approval import LakehouseApprovalOperator
from lakehouse_airflow.operators.repair import KIND, REPAIRED, first_named
from lakehouse_lib.catalogue import REPAIR
from lakehouse_lib.fleet.registry import ApprovalPolicy, Registry

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.ledger import Document, Ledger


class LakehouseRepairApprovalOperator(LakehouseApprovalOperator):
    """Checks a table, and asks the registry's ``repair.approvers`` whether the table may be repaired.

    The plan contains the findings. If there are no findings, the task is skipped. If the repair is rejected, the
    downstream tasks are skipped.

    Args:
        table: a table's name in the registry, or its location (templated).
        lakehouse_conn_id: as the argument of ``LakehouseHook``.

    Returns:
        The decision, as LakehouseApprovalOperator returns it.
    """

    kind = KIND
    template_fields: Sequence[str] = ("table",)

    def __init__(self, *, table: str, lakehouse_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.lakehouse_conn_id = lakehouse_conn_id

    def policy(self, registry: Registry) -> ApprovalPolicy:
        return registry.repair_policy()

    def pointer(self, context: Context, ledger: Ledger) -> Pointer:
        from lakehouse_lib.ledger import digest, new_request

        hook = LakehouseHook(self.lakehouse_conn_id)
        findings = REPAIR.run(hook.table(self.table).snapshot, dry_run=True).findings
        run = Run.of(context)
        asked_request = ledger.find_claim(run.question(self.task_id, map_index(context)))
        if asked_request is not None:
            plan = ledger.read(asked_request, "plan")
            if plan["findings"] != digest(findings) and ledger.find(asked_request, "decision") is None:
                raise NotApprovedError(
                    f"the findings differ from those of request {asked_request}; trigger the DAG again"
                )
            return Pointer(asked_request, digest(plan))
        if not findings:
            raise AirflowSkipException(f"the table {self.table!r} needs no repair")
        plan = {
            "format": 1,
            "kind": self.kind,
            "request": new_request(),
            **run.to_dict(),
            "table": self.table,
            "uri": hook.uri(self.table),
            "found_at": timezone.utcnow().isoformat(),
            "findings": digest(findings),
            "found": {kind: first_named(value) for kind, value in findings.items()},
        }
        ledger.put(plan["request"], "plan", plan)
        return Pointer(plan["request"], digest(plan))

    def question(self, plan: Document) -> tuple[str, str]:
        lines = [f"Request `{plan['request']}`, made at {plan['found_at']} by {code(plan['requester'])}.", ""]
        for kind, finding in plan["found"].items():
            action = "will be repaired" if kind in REPAIRED else "cannot be repaired"
            examples = ", ".join(code(each) for each in finding["first"])
            lines.append(f"* {kind} ({action}): {finding['count']}, such as {examples}")
        return f"Repair the table {plan['table']}?", "\n".join(lines)
