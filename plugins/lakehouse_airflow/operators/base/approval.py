"""The base class of approvals: ask about a plan in the ledger, and put the decision into the ledger."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import airflow
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.execution_time.hitl import HITLUser

from lakehouse_airflow.approval import REJECT, Pointer, Run, decide, map_index, read_plan
from lakehouse_airflow.connections.ledger import open_ledger
from lakehouse_airflow.errors import NotApprovedError, as_task_failure
from lakehouse_airflow.operators.base.notifiers import notifier_of
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.fleet.registry import ApprovalPolicy, Registry

try:
    from airflow.sdk.exceptions import TaskAwaitingInput
except ImportError:
    raise ImportError(f"Airflow {airflow.__version__} has no tasks that wait for an answer; expected 3.3") from None

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.ledger import Document, Ledger


class LakehouseApprovalOperator(ApprovalOperator):
    """Asks the registry's approvers about a plan in the ledger, and puts their decision into the ledger.

    The task makes the question from the plan. The registry has the approvers, the response time and the notifiers.
    Airflow stores the request's id with the waiting task, so an edit of XCom does not change the request that is
    answered.

    In one run, a task asks about one request only. A cleared task asks about the same request again, unless the request
    is decided. The reason is that Airflow keeps the text of a question when its task is cleared, so a question about
    another request would show the old text.

    Returns:
        ``{"request", "digest", "answer", "approver", "answered_at"}``.

    Raises:
        AirflowFailException: the plan is not valid, the user may not answer, or there is no answer in time. Tasks that
            need the approval do not run.
    """

    kind: str
    template_fields: Sequence[str] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(subject="Approve the request?", **kwargs)

    @abstractmethod
    def policy(self, registry: Registry) -> ApprovalPolicy:
        """The policy with the approvers."""

    @abstractmethod
    def pointer(self, context: Context, ledger: Ledger) -> Pointer:
        """The reference to the plan."""

    @abstractmethod
    def question(self, plan: Document) -> tuple[str, str]:
        """The headline and text (Markdown) of the question."""

    def execute(self, context: Context) -> Any:
        with as_task_failure():
            registry = load_registry()
            policy = self.policy(registry)
            ledger = open_ledger(registry)
            run = Run.of(context)
            pointer = self.pointer(context, ledger)
            plan = read_plan(ledger, pointer, run, self.kind)
            asked_request = ledger.claim(run.question(self.task_id, map_index(context)), pointer.request)
            if asked_request != pointer.request:
                ledger.delete(pointer.request, "keys")  # the approvers are not asked about this request
                raise NotApprovedError(
                    f"the task {self.task_id!r} has asked about request {asked_request} in this run and cannot ask "
                    f"about request {pointer.request}; trigger the DAG again"
                )
            decision = ledger.find(pointer.request, "decision")
            if decision is not None:
                self.log.info("request %s is decided already", pointer.request)
                return self._conclude(context, ledger, decision)
            self.require_open(ledger, plan)
        self.subject, self.body = self.question(plan)
        self.assigned_users = [HITLUser(id=user, name=user) for user in policy.approvers]
        self.response_timeout = timedelta(hours=policy.response_hours)
        self.notifiers = [notifier_of(reference) for reference in policy.notifiers]
        try:
            return super().execute(context)
        except TaskAwaitingInput as waiting:
            raise TaskAwaitingInput(
                method_name=waiting.method_name, timeout=waiting.timeout, kwargs=pointer.to_dict()
            ) from None

    def execute_complete(self, context: Context, event: Mapping[str, Any], request: str, digest: str) -> Any:  # type: ignore[override]
        """Handle the answer. Airflow passes the event of the answer, and the ``request`` and ``digest`` of the plan."""
        with as_task_failure():
            registry = load_registry()
            ledger = open_ledger(registry)
            run, pointer = Run.of(context), Pointer(request, digest)
            plan = read_plan(ledger, pointer, run, self.kind)
            if "error" in event:
                if event.get("error_type") == "timeout":
                    ledger.delete(request, "keys")
                raise NotApprovedError(f"request {request} has no answer: {event['error']} Trigger the DAG again")
            decision = decide(event, pointer, plan, self.policy(registry), run)
            decision = ledger.put(request, "decision", decision)
            return self._conclude(context, ledger, decision)

    def require_open(self, ledger: Ledger, plan: Document) -> None:
        """Check that the request is not over. This method checks nothing; subclasses override it.

        Raises:
            NotApprovedError: the request is over.
        """

    def _conclude(self, context: Context, ledger: Ledger, decision: Document) -> dict[str, str]:
        """Return the decision as XCom; after a rejection, delete the keys and skip the downstream tasks."""
        if decision["answer"] == REJECT:
            ledger.delete(decision["request"], "keys")
        answer = {
            "chosen_options": [decision["answer"]],
            "params_input": {},
            "responded_at": datetime.fromisoformat(decision["answered_at"]),
            "responded_by_user": decision["approver"],
        }
        super().execute_complete(context, answer)
        return {
            **Pointer(decision["request"], decision["digest"]).to_dict(),
            "answer": decision["answer"],
            "approver": decision["approver"]["id"],
            "answered_at": decision["answered_at"],
        }
