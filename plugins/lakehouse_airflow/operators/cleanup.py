"""The operator that deletes expired files of the log."""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.rendered import with_registry_defaults
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_airflow.operators.vacuum import vacuum_policy, without_paths
from lakehouse_lib.catalogue import CLEANUP


class LakehouseCleanupOperator(LakehouseTableOperator):
    """Deletes log files that are older than ``delta.logRetentionDuration`` and that no retained version needs.

    Log files are commits, checkpoints and checksums. No data file is deleted. The task is skipped if the table keeps
    its log without limit (``delta.enableExpiredLogCleanup`` is false). All arguments are templated.

    Args:
        enforce_retention: False permits a ``delta.logRetentionDuration`` shorter than
            ``delta.deletedFileRetentionDuration``; default: the value in the registry, else True.
        dry_run: only count the files.
    """

    parameters = with_registry_defaults(CLEANUP, {"enforce_retention": "enforce_retention_duration"})
    template_fields = (*LakehouseTableOperator.template_fields, "enforce_retention", "dry_run")

    def __init__(self, *, enforce_retention: bool | None = None, dry_run: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.enforce_retention = enforce_retention
        self.dry_run = dry_run

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        from lakehouse_lib.fleet.versions import log_retention

        policy = vacuum_policy(self.table)
        enforce = policy.enforce_retention if self.enforce_retention is None else self.enforce_retention
        table = hook.table(self.table)
        if log_retention(table.metadata().configuration) is None:
            raise AirflowSkipException(
                f"the table {self.table!r} keeps its log without limit (delta.enableExpiredLogCleanup is false)"
            )
        result = CLEANUP.run(table.snapshot, dry_run=self.dry_run, enforce_retention_duration=enforce)
        return without_paths(self.table, result)
