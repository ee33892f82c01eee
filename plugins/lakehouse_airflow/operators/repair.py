"""The operator that checks a table's log and files, and repairs the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.xcom import BaseXCom

from lakehouse_airflow.approval import Pointer, Run, map_index, read_plan, require_approval
from lakehouse_airflow.connections.ledger import open_ledger
from lakehouse_airflow.errors import InvalidParameterError, NotApprovedError, TableDamagedError, as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.catalogue import REPAIR

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.operations.results import RepairResult
    from lakehouse_lib.store import ObjectStore

#: The kind of a plan for a repair.
KIND = "repair"
#: The largest number of findings of a kind in XCom and in the task's log. There may be a million findings.
_MOST_NAMED = 20
#: The kinds of findings that a repair repairs. After a repair, findings of any other kind fail the task.
REPAIRED: tuple[str, ...] = REPAIR.result.REPAIRED


class LakehouseRepairOperator(LakehouseTableOperator):
    """Checks a table's log and files, and repairs the table if ``dry_run`` is False.

    A repair removes missing data files from the log; their rows are lost, and the commit lists the files.

    Returns ``{"table", "read_version", "version", "dry_run", "is_sound", "found": {kind: {"count", "first"}}}``.
    ``found`` has the kinds with findings. ``first`` has the first 20 findings of a kind, each with its reason if there
    is one.

    Args:
        dry_run: True: only report. False: repair, and fail if a finding is left that needs a backup. Missing commits
            below the oldest version that can be read do not fail the task (templated).
        approved_by: task id of a LakehouseRepairApprovalOperator of the same table. Its decision is verified before
            the repair, and the findings must be the findings of the approved plan.
    """

    template_fields = (*LakehouseTableOperator.template_fields, "dry_run")

    def __init__(self, *, dry_run: bool | str = True, approved_by: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dry_run = dry_run
        self.approved_by = approved_by
        self._not_repaired: list[str] = []
        self._before_repair: Callable[[RepairResult], None] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        if str(self.dry_run) not in ("True", "False"):  # a template renders to text
            raise InvalidParameterError(f"dry_run is {self.dry_run!r}; expected True or False")
        if not self._only_reports and self.approved_by is not None:
            with as_task_failure():
                self._before_repair = self._approval_check(context, self.approved_by)
        report: dict[str, Any] = super().execute(context)
        for kind, findings in report["found"].items():
            self.log.warning("%s: %d, such as %s", kind, findings["count"], findings["first"])
        if self._not_repaired and not self._only_reports:
            # The repairs are committed, so they are reported although the task fails.
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, report)
            raise TableDamagedError(
                f"the table {self.table!r} is damaged: {', '.join(self._not_repaired)} cannot be repaired; restore "
                "these files from a backup (docs/log-upkeep.md)"
            )
        return report

    def _approval_check(self, context: Context, task_id: str) -> Callable[[RepairResult], None]:
        """A function that checks whether the findings are those of the approved plan.

        Raises:
            NotApprovedError: the plan or its approval is not valid for this table.
        """
        from lakehouse_lib.ledger import digest

        registry = load_registry()
        ledger = open_ledger(registry)
        run = Run.of(context)
        index = map_index(context)
        pointer = Pointer.pull(context, task_id, index)
        plan = read_plan(ledger, pointer, run, KIND)
        uri = LakehouseHook(self.lakehouse_conn_id).uri(self.table)
        if plan["uri"] != uri:
            raise NotApprovedError(f"request {pointer.request} is about the table {plan['uri']}; expected {uri}")
        decision = require_approval(ledger, pointer, plan, registry.repair_policy(), run, run.question(task_id, index))
        self.log.info("request %s: approved by %s", pointer.request, decision["approver"]["id"])

        def compare(result: RepairResult) -> None:
            findings = result.findings
            # Without findings, a killed try has already repaired the table.
            if findings and digest(findings) != plan["findings"]:
                raise NotApprovedError(
                    f"the findings differ from those of request {pointer.request}, and nothing was repaired; trigger "
                    "the DAG again"
                )

        return compare

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        table = hook.table(self.table)
        result: RepairResult = REPAIR.run(table.snapshot, dry_run=self._only_reports, before_repair=self._before_repair)
        findings = result.findings
        self._not_repaired = [kind for kind in findings if kind not in REPAIRED]
        if "commits_missing" in findings and not _are_versions_lost(findings["commits_missing"], table.store):
            self._not_repaired.remove("commits_missing")
        return {
            "table": self.table,
            "read_version": result.read_version,
            "version": result.version,
            "dry_run": result.dry_run,
            "is_sound": result.is_sound,
            "found": {kind: first_named(value) for kind, value in findings.items()},
        }

    @property
    def _only_reports(self) -> bool:
        return str(self.dry_run) == "True"


def _are_versions_lost(holes: Sequence[str], store: ObjectStore) -> bool:
    """Whether a commit after the oldest version that can be read is missing.

    An interrupted log cleanup may leave missing commits below that version. They belong to expired versions.

    Args:
        holes: the missing versions, ascending, such as "5" or "7 to 9".
    """
    from lakehouse_lib.fleet.versions import oldest_version

    last = int(holes[-1].rpartition(" ")[2])
    return last >= (oldest_version(store) or 0)


def first_named(findings: Any) -> dict[str, Any]:
    """The count and the first findings of a kind: a list of paths, {path: reason}, or one reason."""
    if isinstance(findings, dict):
        findings = [f"{path}: {reason}" for path, reason in findings.items()]
    elif isinstance(findings, str):
        findings = [findings]
    return {"count": len(findings), "first": findings[:_MOST_NAMED]}
