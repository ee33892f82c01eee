"""The operator that restores an earlier version of a table."""

from __future__ import annotations

from typing import Any

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_lib.catalogue import RESTORE


class LakehouseRestoreOperator(LakehouseTableOperator):
    """Makes a table equal to an earlier version, in a new commit. Commits nothing if the table is equal already.

    The default of ``retries`` is 0, and the DAG's default arguments do not change this default. A second try would also
    undo the commits of other writers since the first try. All arguments are templated.

    Args:
        target: a version, or a time as ISO 8601 text. Text of digits is a version.
        ignore_missing_files: leave out files of the version that no longer exist, instead of failing.
        dry_run: only count the files.
    """

    parameters = RESTORE.parameters
    template_fields = (*LakehouseTableOperator.template_fields, "target", "ignore_missing_files", "dry_run")

    def __init__(
        self, *, target: int | str, ignore_missing_files: bool = False, dry_run: bool = False, **kwargs: Any
    ) -> None:
        kwargs.setdefault("retries", 0)
        super().__init__(**kwargs)
        self.target = target
        self.ignore_missing_files = ignore_missing_files
        self.dry_run = dry_run

    def run(self, hook: LakehouseHook) -> dict[str, Any]:
        result = RESTORE.run(
            hook.table(self.table).snapshot,
            target=self.target,
            ignore_missing_files=self.ignore_missing_files,
            dry_run=self.dry_run,
        )
        # A count, because there may be a million files.
        values = {**result.to_dict(), "table": self.table, "files_missing": len(result.missing_files)}
        del values["missing_files"]
        return values
