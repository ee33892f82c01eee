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

    from lakehouse_lib.store.base import ObjectStore

#: Of each kind of finding, in XCom and log: neither is a place for a million paths.
_MOST_NAMED = 20
#: What repair() mends. All else that it finds is left, and whatever it may find one day until it is named here.
_MENDED = ("files_removed", "checkpoints_unreadable", "checksums_wrong", "last_checkpoint", "temporary")


class LakehouseRepairOperator(LakehouseTableOperator):
    """Looks for what is wrong with a table's log and files, and mends it only when asked to.

    Mending takes missing data files out of the log; the rows in them are lost, and the commit says so.

    Returns ``{"table", "version", "dry_run", "is_sound", "found": {kind: {"count", "first"}}}``: only kinds of which
    something was found, ``first`` the first 20 (with the reason, where there is one).

    Args:
        dry_run: True only reports. False mends, and fails when something is left that only a backup mends. Holes in
            the log below the oldest version that can be read are nothing of the kind.
        approved_by: task id of an ApprovalOperator, whose answer is verified before anything is mended.
    """

    template_fields: Sequence[str] = ("table", "dry_run")

    def __init__(self, *, dry_run: bool | str = True, approved_by: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dry_run = dry_run
        self.approved_by = approved_by
        self._left: list[str] = []

    def execute(self, context: Context) -> dict[str, Any]:
        if str(self.dry_run) not in ("True", "False"):  # a template renders to text
            raise AirflowFailException(f"dry_run is {self.dry_run!r}; it has to be True or False")
        if not self._only_reports and self.approved_by is not None:
            self.log.info("approved by %s", require_approval(context, self.approved_by))
        report: dict[str, Any] = super().execute(context)
        for kind, findings in report["found"].items():
            self.log.warning("%s: %d, such as %s", kind, findings["count"], findings["first"])
        if self._left and not self._only_reports:
            # What has been mended stays, so it is told all the same.
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, report)
            raise AirflowFailException(
                f"the table {self.table!r} is not whole: {', '.join(self._left)} cannot be mended; restore these "
                "files from a backup (docs/log-upkeep.md)"
            )
        return report

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        table = hook.table(self.table)
        report = table.repair(dry_run=self._only_reports)
        found = {kind: value for kind, value in report.items() if kind not in ("dry_run", "version") and value}
        self._left = [kind for kind in found if kind not in _MENDED]
        if "commits_missing" in found and not _are_versions_lost(found["commits_missing"], table.store):
            self._left.remove("commits_missing")
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


def _are_versions_lost(holes: Sequence[str], store: ObjectStore) -> bool:
    """Whether one of the missing commits ("5", "7 to 9", ascending) is not below the oldest version that can be read.

    Those below it belong to versions that have expired: a cleanup was interrupted, and the next one takes the rest.
    """
    from lakehouse_lib.log.segment import oldest_version

    last = int(holes[-1].rpartition(" ")[2])
    return last >= (oldest_version(store) or 0)


def _named(findings: Any) -> dict[str, Any]:
    """Of a list of paths, of {path: reason}, or of one reason."""
    if isinstance(findings, dict):
        findings = [f"{path}: {reason}" for path, reason in findings.items()]
    elif isinstance(findings, str):
        findings = [findings]
    return {"count": len(findings), "first": findings[:_MOST_NAMED]}
