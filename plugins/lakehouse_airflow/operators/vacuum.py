"""The operator that vacuums a table."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.rendered import with_registry_defaults
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_airflow.operators.maintenance.fleet import record_of
from lakehouse_airflow.registry import load_registry, registered_entry
from lakehouse_lib.catalogue import VACUUM
from lakehouse_lib.fleet.registry import VacuumPolicy

if TYPE_CHECKING:
    from lakehouse_lib.operations.results import CleanupResult, VacuumResult


class LakehouseVacuumOperator(LakehouseTableOperator):
    """Deletes files that were removed from the table longer ago than the retention, and unreferenced files of this age.

    If the table is registered and the registry has ``records``, the deleted files are recorded. All arguments are
    templated.

    Args:
        retention_hours: default: the registry's, else the table's own (``delta.deletedFileRetentionDuration``).
        enforce_retention: False permits a retention shorter than the table's own. Time travel and running readers may
            then fail. Default: the registry's, else True.
        dry_run: only count the files.
        full: False: read the log and do not list the table, so that unreferenced files stay. Default: True with an
            ``inventory``, else the registry's, else True.
        inventory: files with a list of the stored objects, which vacuum reads instead of listing the table.
        files_per_second: the largest number of files deleted per second; default: the registry's, else no limit.
        keep_versions: keep all files of these versions.
    """

    parameters = with_registry_defaults(
        VACUUM,
        {
            "retention_hours": "retention_hours",
            "enforce_retention": "enforce_retention_duration",
            "full": "full",
            "files_per_second": "files_per_second",
        },
    )
    template_fields = (
        *LakehouseTableOperator.template_fields,
        "retention_hours",
        "enforce_retention",
        "dry_run",
        "full",
        "inventory",
        "files_per_second",
        "keep_versions",
    )

    def __init__(
        self,
        *,
        retention_hours: float | None = None,
        enforce_retention: bool | None = None,
        dry_run: bool = False,
        full: bool | None = None,
        inventory: str | Sequence[str] | None = None,
        files_per_second: float | None = None,
        keep_versions: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.retention_hours = retention_hours
        self.enforce_retention = enforce_retention
        self.dry_run = dry_run
        self.full = full
        self.inventory = inventory
        self.files_per_second = files_per_second
        self.keep_versions = keep_versions

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        from lakehouse_lib.progress import log_observer

        policy = vacuum_policy(self.table)
        record = None if registered_entry(self.table) is None else record_of(load_registry(), hook)
        hours = policy.retention_hours if self.retention_hours is None else self.retention_hours
        enforce = policy.enforce_retention if self.enforce_retention is None else self.enforce_retention
        result = VACUUM.run(
            hook.table(self.table).snapshot,
            retention_hours=hours,
            dry_run=self.dry_run,
            enforce_retention_duration=enforce,
            full=(policy.full or self.inventory is not None) if self.full is None else self.full,
            inventory=self.inventory,
            files_per_second=policy.files_per_second if self.files_per_second is None else self.files_per_second,
            keep_versions=self.keep_versions,
            before_deletion=None if record is None else record.deleted_files.writer(self.table, uuid.uuid4().hex),
            on_progress=log_observer(f"vacuum of {self.table}"),
        )
        return without_paths(self.table, result)


def without_paths(table: str, result: VacuumResult | CleanupResult) -> dict[str, Any]:
    """The result with the number of files instead of their paths, because there may be a million files."""
    values = {**result.to_dict(), "table": table, "files_deleted": result.file_count}
    del values["files"]
    return values


def vacuum_policy(table: str) -> VacuumPolicy:
    """The registry's policy of a table; the default policy for a table that is not registered."""
    entry = registered_entry(table)
    return VacuumPolicy() if entry is None else entry.vacuum
