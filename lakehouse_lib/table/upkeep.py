"""The verbs that maintain a table: vacuum, pins, manifests, checkpoint, log compaction, log cleanup and repair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakehouse_lib.table.arguments.positional import also_by_position
from lakehouse_lib.table.deltalake_metrics import repair_metrics
from lakehouse_lib.table.versions import VersionedTable
from lakehouse_lib.transaction.commit_properties import CommitProperties, commit_properties_of

if TYPE_CHECKING:
    from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties


class UpkeepTable(VersionedTable):
    """A table with the verbs that maintain it."""

    @also_by_position("post_commithook_properties", "commit_properties", "full", "keep_versions")
    def vacuum(
        self,
        retention_hours: float | None = None,
        dry_run: bool = True,
        enforce_retention_duration: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        full: bool = False,
        keep_versions: Sequence[int] | None = None,
    ) -> list[str]:
        """Delete files that neither the latest version nor a reader within the retention needs. Returns their paths.

        See ``operations.upkeep.vacuum``. At most the first 100,000 paths are returned.

        Args:
            retention_hours: keep files that were removed or written within these hours; None: the table's
                ``delta.deletedFileRetentionDuration``, else 168.
            dry_run: only return the paths (default).
            enforce_retention_duration: refuse fewer hours than the table's retention.
            full: list the table, and also delete old files without a log entry, such as files of killed writers.
            keep_versions: keep all files of these versions.

        Raises:
            RetentionError: ``retention_hours`` is shorter than the table's retention.
            DeltaError: as ``operations.upkeep.vacuum``.
        """
        from lakehouse_lib.operations.upkeep.vacuum import vacuum

        properties = commit_properties_of(commit_properties, post_commithook_properties, table=self.table_uri)
        result = vacuum(
            self._latest(),
            retention_hours=retention_hours,
            dry_run=dry_run,
            enforce_retention_duration=enforce_retention_duration,
            full=full,
            keep_versions=keep_versions or (),
            commit_properties=properties,
        )
        self._move_on(result.version)
        return list(result.files)

    def pin(self, name: str, version: int | str | datetime | None = None) -> int:
        """Keep a version by name, and return the version; see ``operations.upkeep.pins``.

        Vacuum and log cleanup of this library keep the version until ``release(name)``. Nothing is committed.

        Args:
            name: letters, digits, ``.``, ``_`` and ``-``, at most 100 characters.
            version: a version, or a time (a datetime or ISO 8601 text; UTC if it has no zone). A time selects the
                latest version that was committed at or before it. Default: the open version.
        """
        from lakehouse_lib.operations.upkeep.pins import pin_version

        return pin_version(self._snapshot, name, version).pinned_version

    def release(self, name: str) -> int:
        """Delete a pin, so that vacuum and log cleanup no longer keep its version. Return the version."""
        from lakehouse_lib.operations.upkeep.pins import release_version

        return release_version(self._snapshot, name).pinned_version

    def generate(self, *, mode: str = "symlink_format_manifest") -> None:
        """Write manifests of the latest version for programs that read Parquet; see ``operations.upkeep.generate``."""
        from lakehouse_lib.operations.upkeep.generate import generate

        generate(self._latest(), mode)

    def create_checkpoint(self) -> None:
        """Write a checkpoint of the open version; see ``operations.upkeep.checkpoint``.

        Commits also write a checkpoint every ``delta.checkpointInterval`` versions (default 10).
        """
        from lakehouse_lib.operations.upkeep.checkpoint import checkpoint

        checkpoint(self._snapshot)

    def compact_logs(self, starting_version: int, ending_version: int) -> None:
        """Write a log compaction of these commits, both inclusive; see ``operations.upkeep.log_compaction``."""
        from lakehouse_lib.operations.upkeep.log_compaction import compact_logs

        self._snapshot.check_same_table()
        compact_logs(self._snapshot, starting_version, ending_version)

    def cleanup_metadata(self, *, dry_run: bool = False, enforce_retention_duration: bool = True) -> list[str]:
        """Delete log files older than ``delta.logRetentionDuration`` that no remaining version needs.

        Returns their paths; see ``operations.upkeep.cleanup``.

        Args:
            dry_run: only return the paths.
        """
        from lakehouse_lib.operations.upkeep.cleanup import cleanup

        result = cleanup(self._latest(), dry_run=dry_run, enforce_retention_duration=enforce_retention_duration)
        return list(result.files)

    @also_by_position("post_commithook_properties", "commit_properties")
    def repair(
        self,
        dry_run: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        before_repair: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Find damage of the table and, unless ``dry_run`` (default), repair it; see ``operations.upkeep.repair``.

        A dry run requires only that the open version can be read. The latest version may be damaged.

        Args:
            commit_properties: the properties of the commit that removes missing files.
            before_repair: a function that is called once, before the repair changes an object. Its argument is the
                report, a dictionary like the result. If the function raises an error, nothing is changed. A dry run
                does not call it.

        Returns:
            ``files_removed`` and ``dry_run`` as in ``deltalake`` (whose default is not a dry run), and the other
            findings of ``operations.results.RepairResult``.
        """
        from lakehouse_lib.operations.upkeep.repair import repair

        properties = commit_properties_of(commit_properties, post_commithook_properties, table=self.table_uri)
        result = repair(
            self._snapshot,
            dry_run=dry_run,
            commit_properties=properties,
            before_repair=None if before_repair is None else lambda result: before_repair(repair_metrics(result)),
        )
        if not dry_run:
            self._move_on(result.version)
        return repair_metrics(result)
