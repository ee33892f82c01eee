"""Check in the ledger, never in XCom, that an approver has approved a plan.

Any user may edit XCom, so XCom has only a reference to the plan. The plan and the decision are in the ledger, sealed
with the ledger's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.errors import NotApprovedError
from lakehouse_lib.fleet.registry import ApprovalPolicy

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.ledger import Document, Ledger

APPROVE, REJECT = "Approve", "Reject"


@dataclass(frozen=True)
class Run:
    """The DAG run of a task.

    Attributes:
        requester: the user who triggered the run.
    """

    dag_id: str
    run_id: str
    requester: str

    @classmethod
    def of(cls, context: Context) -> Run:
        """The DAG run in a task's context.

        Raises:
            NotApprovedError: no user has triggered the run.
        """
        run: Any = context["dag_run"]
        if not run.triggering_user_name:
            raise NotApprovedError(
                f"the run {run.run_id!r} has no requester, because no user has triggered it; trigger the DAG in the UI "
                "or by the API"
            )
        return cls(run.dag_id, run.run_id, run.triggering_user_name)

    def to_dict(self) -> dict[str, str]:
        """The fields of the run in the documents of plans and decisions."""
        return {"dag_id": self.dag_id, "run_id": self.run_id, "requester": self.requester}

    def question(self, task_id: str, map_index: int) -> tuple[str | int, ...]:
        """The key of a task's question in the ledger. A task asks about one request only, even after it is cleared."""
        return (self.dag_id, self.run_id, task_id, map_index)


@dataclass(frozen=True)
class Pointer:
    """A reference to a plan in the ledger, which tasks pass by XCom.

    Attributes:
        request: the id of the request.
        digest: the digest of the plan.
    """

    request: str
    digest: str

    @classmethod
    def pull(cls, context: Context, task_id: str, map_index: int = -1) -> Pointer:
        """The reference that the task ``task_id`` of this run returned.

        Raises:
            NotApprovedError: the task's XCom is missing or is not a reference.
        """
        reference: Any = context["ti"].xcom_pull(task_ids=task_id, map_indexes=map_index)
        if not isinstance(reference, Mapping) or not all(
            isinstance(reference.get(key), str) for key in ("request", "digest")
        ):
            raise NotApprovedError(
                f"the task {task_id!r} of this run has returned no request (a task marked as success returns none); "
                "trigger the DAG again"
            )
        return cls(reference["request"], reference["digest"])

    def to_dict(self) -> dict[str, str]:
        """The value for XCom."""
        return {"request": self.request, "digest": self.digest}


def map_index(context: Context) -> int:
    """The index of a mapped task; -1 for any other task."""
    index = context["ti"].map_index
    return -1 if index is None else int(index)


def read_plan(ledger: Ledger, pointer: Pointer, run: Run, kind: str) -> Document:
    """The plan to which a reference points.

    Args:
        kind: ``erasure`` or ``repair``.

    Raises:
        LedgerError: the plan is missing, edited or sealed with another key.
        NotApprovedError: the plan has another digest, run or kind.
    """
    from lakehouse_lib.ledger import digest

    plan = ledger.read(pointer.request, "plan")
    if digest(plan) != pointer.digest:
        raise NotApprovedError(
            f"the plan of request {pointer.request} has the digest {digest(plan)}; XCom says {pointer.digest[:64]!r}; "
            "trigger the DAG again"
        )
    if plan.get("kind") != kind:
        raise NotApprovedError(
            f"request {pointer.request} has a plan of the kind {plan.get('kind')!r}; expected {kind!r}"
        )
    _require_same_run(plan, run, f"the plan of request {pointer.request}")
    return plan


def require_approval(
    ledger: Ledger, pointer: Pointer, plan: Document, policy: ApprovalPolicy, run: Run, question: tuple[str | int, ...]
) -> Document:
    """The decision that approves the plan.

    Args:
        plan: the plan, from ``read_plan``.
        policy: the registry's current policy; the answer of a user who is no longer an approver does not count.
        question: the key of the question, from ``Run.question``.

    Raises:
        LedgerError: the decision is edited or sealed with another key.
        NotApprovedError: there is no decision, or it does not approve this plan in this run under the policy.
    """
    asked_request = ledger.find_claim(question)
    if asked_request != pointer.request:
        what = "has asked nothing yet" if asked_request is None else f"has asked about request {asked_request}"
        raise NotApprovedError(f"this run {what}, and XCom points to request {pointer.request}; trigger the DAG again")
    decision = ledger.find(pointer.request, "decision")
    if decision is None:
        raise NotApprovedError(
            f"request {pointer.request} has no decision in the ledger (an approval marked as success makes none); "
            f"clear the task {question[2]!r}, and have an approver answer"
        )
    if decision.get("digest") != pointer.digest:
        raise NotApprovedError(
            f"the decision of request {pointer.request} is about another plan; trigger the DAG again"
        )
    _require_same_run(decision, run, f"the decision of request {pointer.request}")
    if decision.get("answer") != APPROVE:
        raise NotApprovedError(
            f"the answer to request {pointer.request} is {decision.get('answer')!r}; expected {APPROVE!r}"
        )
    _check_answer(decision, plan, policy)
    return decision


def decide(event: Mapping[str, Any], pointer: Pointer, plan: Document, policy: ApprovalPolicy, run: Run) -> Document:
    """The decision that a user's answer makes. The caller puts the decision into the ledger.

    Args:
        event: the event with which Airflow resumes the waiting task; Airflow makes it from the stored answer.

    Raises:
        NotApprovedError: the answer is not valid, or the policy does not permit the user to answer.
    """
    chosen = list(event.get("chosen_options") or ())
    if chosen not in ([APPROVE], [REJECT]):
        raise NotApprovedError(f"the answer to request {pointer.request} is {chosen}; expected {APPROVE} or {REJECT}")
    person = event.get("responded_by_user")
    if not isinstance(person, Mapping) or not person.get("id"):
        raise NotApprovedError(
            f"the answer to request {pointer.request} names no user; expected the id and name of an approver"
        )
    answered_at = event.get("responded_at")
    decision = {
        "format": 1,
        **pointer.to_dict(),
        **run.to_dict(),
        "answer": chosen[0],
        "approver": {"id": str(person["id"]), "name": str(person.get("name") or person["id"])},
        "answered_at": answered_at.isoformat() if isinstance(answered_at, datetime) else str(answered_at),
    }
    _check_answer(decision, plan, policy)
    return decision


def _check_answer(decision: Document, plan: Document, policy: ApprovalPolicy) -> None:
    """Check that the policy permits the user to answer, and that the answer is not earlier than the plan."""
    request, approver = decision["request"], decision["approver"]
    if approver["id"] not in policy.approvers:
        raise NotApprovedError(
            f"the user {approver['id']!r} answered request {request}; expected one of the registry's approvers, "
            f"{', '.join(policy.approvers)}"
        )
    # A run has only the name of its user; an answer has id and name.
    if policy.four_eyes and decision["requester"] in (approver["id"], approver["name"]):
        raise NotApprovedError(
            f"the user {approver['id']!r} has triggered the run and answered request {request}; expected the answer of "
            "another approver (the registry's four_eyes)"
        )
    if not _is_later(decision["answered_at"], plan["found_at"]):
        raise NotApprovedError(
            f"request {request} was answered at {decision['answered_at']}; expected a time after its plan, "
            f"{plan['found_at']}; check the clocks of the API server and the workers"
        )


def _require_same_run(document: Document, run: Run, what: str) -> None:
    for name, value in run.to_dict().items():
        if document.get(name) != value:
            raise NotApprovedError(f"{what} has the {name} {document.get(name)!r}; expected this run's {value!r}")


def _is_later(answered: str, requested: str) -> bool:
    try:
        return datetime.fromisoformat(answered) >= datetime.fromisoformat(requested)
    except (TypeError, ValueError):  # not a time, or a time without a zone
        return False
