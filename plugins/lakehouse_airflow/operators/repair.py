"""Finding what is wrong with a table, and mending it when asked to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow.approval import require_approval
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.table_operator import LakehouseTableOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Of each kind of finding, in XCom and log: neither is a place for a million paths.
_MOST_NAMED = 20
#: What only a backup mends.
_LEFT = ("vectors_missing", "checkpoints_needed")


class LakehouseRepairOperator(LakehouseTableOperator):
    """Looks for what is wrong with a table's log and files, and mends it only when asked to.

    Mending takes missing data files out of the log; the rows in them are lost, and the commit says so.

    Returns ``{"table", "version", "dry_run", "is_sound", "found": {kind: {"count", "first"}}}``: only kinds of which
    something was found, ``first`` the first 20 (with the reason, where there is one).

    Args:
        dry_run: True only reports. False mends, and fails when something is left that only a backup mends.
        approved_by: task id of an ApprovalOperator, whose answer is verified before anything is mended.
    """

    template_fields: Sequence[str] = ("table", "dry_run")

    def __init__(self, *, dry_run: bool | str = True, approved_by: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dry_run = dry_run
        self.approved_by = approved_by

    def execute(self, context: Context) -> dict[str, Any]:
        if str(self.dry_run) not in ("True", "False"):  # a template renders to text
            raise AirflowFailException(f"dry_run is {self.dry_run!r}; it has to be True or False")
        if not self._only_reports and self.approved_by is not None:
            self.log.info("approved by %s", require_approval(context, self.approved_by))
        report: dict[str, Any] = super().execute(context)
        for kind, findings in report["found"].items():
            self.log.warning("%s: %d, such as %s", kind, findings["count"], findings["first"])
        left = [kind for kind in _LEFT if kind in report["found"]]
        if left and not self._only_reports:
            # What has been mended stays, so it is told all the same.
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, report)
            raise AirflowFailException(
                f"the table {self.table!r} is not whole: {', '.join(left)} cannot be mended; restore these files from "
                "a backup (docs/log-upkeep.md)"
            )
        return report

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        table = hook.table(self.table)
        report = table.repair(dry_run=self._only_reports)
        found = {kind: value for kind, value in report.items() if kind not in ("dry_run", "version") and value}
        return {
            "table": self.table,
            "version": table.version(),
            "dry_run": self._only_reports,
            "is_sound": not found,
            "found": {kind: _named(value) for kind, value in found.items()},
        }

    @property
    def _only_reports(self) -> bool:
        return str(self.dry_run) == "True"


def _named(findings: Any) -> dict[str, Any]:
    """Of a list of paths, of {path: reason}, or of one reason."""
    if isinstance(findings, dict):
        findings = [f"{path}: {reason}" for path, reason in findings.items()]
    elif isinstance(findings, str):
        findings = [findings]
    return {"count": len(findings), "first": findings[:_MOST_NAMED]}
