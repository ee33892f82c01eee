"""Find what is wrong with a table, and repair it when asked to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.bases.xcom import BaseXCom

from lakehouse_airflow.approval import NotApprovedError, Pointer, Run, map_index, read_plan, require_approval
from lakehouse_airflow.connections.ledger import open_ledger
from lakehouse_airflow.failures import as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.catalogue import REPAIR

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.operations.results import RepairResult
    from lakehouse_lib.store.base import ObjectStore

#: The kind of plan that an approval of a repair is about.
KIND = "repair"
#: Of each kind of finding, in XCom and log: neither is a place for a million paths.
_MOST_NAMED = 20
#: Kinds of findings that repair() repairs. Any other kind, a new one included, fails the task until it is named here.
REPAIRED = (
    "files_removed",
    "checkpoints_unreadable",
    "compactions_wrong",
    "checksums_wrong",
    "last_checkpoint",
    "temporary",
)


class LakehouseRepairOperator(LakehouseTableOperator):
    """Looks for what is wrong with a table's log and files, and repairs it only when asked to.

    A repair takes missing data files out of the log; the rows in them are lost, and the commit says so.

    Returns ``{"table", "read_version", "version", "dry_run", "is_sound", "found": {kind: {"count", "first"}}}``: only
    kinds of which something was found, ``first`` the first 20 (with the reason, where there is one).

    Args:
        dry_run: True only reports. False repairs, and fails when something is left that needs a backup. Holes in the
            log below the oldest version that can be read do not count.
        approved_by: task id of a LakehouseRepairApprovalOperator of the same table. Its decision is verified before
            anything is repaired, and other findings than those approved are refused.
    """

    template_fields: Sequence[str] = ("table", "dry_run")

    def __init__(self, *, dry_run: bool | str = True, approved_by: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dry_run = dry_run
        self.approved_by = approved_by
        self._left: list[str] = []
        self._before_repair: Callable[[RepairResult], None] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        if str(self.dry_run) not in ("True", "False"):  # a template renders to text
            raise AirflowFailException(f"dry_run is {self.dry_run!r}; expected True or False")
        if not self._only_reports and self.approved_by is not None:
            with as_task_failure():
                self._before_repair = self._approved(context, self.approved_by)
        report: dict[str, Any] = super().execute(context)
        for kind, findings in report["found"].items():
            self.log.warning("%s: %d, such as %s", kind, findings["count"], findings["first"])
        if self._left and not self._only_reports:
            # What has been repaired stays, so it is reported all the same.
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, report)
            raise AirflowFailException(
                f"the table {self.table!r} is not whole: {', '.join(self._left)} cannot be repaired; restore these "
                "files from a backup (docs/log-upkeep.md)"
            )
        return report

    def _approved(self, context: Context, task_id: str) -> Callable[[RepairResult], None]:
        """Returns a function that compares findings with the approved ones.

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
            raise NotApprovedError(f"request {pointer.request} is about the table {plan['uri']}; this one is {uri}")
        decision = require_approval(ledger, pointer, plan, registry.repair_policy(), run, run.question(task_id, index))
        self.log.info("request %s: approved by %s", pointer.request, decision["approver"]["id"])

        def compare(result: RepairResult) -> None:
            findings = result.findings
            # None: a try that was killed has repaired them.
            if findings and digest(findings) != plan["findings"]:
                raise NotApprovedError(
                    f"the findings are not those of request {pointer.request} any more, and nothing was repaired; "
                    "trigger the DAG again"
                )

        return compare

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        table = hook.table(self.table)
        result: RepairResult = REPAIR.run(table.snapshot, dry_run=self._only_reports, before_repair=self._before_repair)
        findings = result.findings
        self._left = [kind for kind in findings if kind not in REPAIRED]
        if "commits_missing" in findings and not _are_versions_lost(findings["commits_missing"], table.store):
            self._left.remove("commits_missing")
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
    """Whether one of the missing commits ("5", "7 to 9", ascending) is not below the oldest version that can be read.

    Those below it belong to versions that have expired: a cleanup was interrupted, and the next one takes the rest.
    """
    from lakehouse_lib.fleet.versions import oldest_version

    last = int(holes[-1].rpartition(" ")[2])
    return last >= (oldest_version(store) or 0)


def first_named(findings: Any) -> dict[str, Any]:
    """Of a list of paths, of {path: reason}, or of one reason."""
    if isinstance(findings, dict):
        findings = [f"{path}: {reason}" for path, reason in findings.items()]
    elif isinstance(findings, str):
        findings = [findings]
    return {"count": len(findings), "first": findings[:_MOST_NAMED]}
