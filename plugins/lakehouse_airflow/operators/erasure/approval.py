"""The operator that asks for the approval of an erasure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse_airflow.approval import Pointer
from lakehouse_airflow.erasure import plan as erasure_plan
from lakehouse_airflow.operators.base.approval import LakehouseApprovalOperator
from lakehouse_lib.fleet.registry import ApprovalPolicy, Registry

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.ledger import Document, Ledger


class LakehouseErasureApprovalOperator(LakehouseApprovalOperator):
    """Asks the subject's approvers whether a person may be erased as planned.

    Args:
        subject: a subject of the registry. Its ``approvers``, ``four_eyes``, ``response_hours`` and ``notifiers``
            apply.
        located_by: task id of the LakehouseLocateSubjectOperator.
    """

    kind = erasure_plan.KIND

    def __init__(self, *, subject: str, located_by: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.registry_subject = subject  # in Airflow, ``subject`` is the headline of the question
        self.located_by = located_by

    def policy(self, registry: Registry) -> ApprovalPolicy:
        return registry.subject(self.registry_subject)

    def pointer(self, context: Context, ledger: Ledger) -> Pointer:  # noqa: ARG002
        return Pointer.pull(context, self.located_by)

    def question(self, plan: Document) -> tuple[str, str]:
        return erasure_plan.question(plan)

    def require_open(self, ledger: Ledger, plan: Document) -> None:
        erasure_plan.require_subject(plan, self.registry_subject)
        erasure_plan.places_of(ledger, plan)
