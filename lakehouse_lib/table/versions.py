"""A table that moves to another version: to read an earlier version, to restore one, or after a commit."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from lakehouse_lib.errors import DeltaError, InvalidArgumentError, WrongArgumentTypeError
from lakehouse_lib.log.history import moment_of, version_at
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.table.deltalake_metrics import restore_metrics
from lakehouse_lib.table.reading import ReadableTable
from lakehouse_lib.transaction.commit_properties import CommitProperties, commit_properties_of
from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties

logger = logging.getLogger(__name__)


class VersionedTable(ReadableTable):
    """A table that can move to another version and restore one."""

    def load_as_version(self, version: int | str | datetime) -> None:
        """Move to a version, or to the latest version at a time.

        A time is a datetime or ISO 8601 text; without a zone: UTC. As in ``deltalake``, a time in the future selects
        the latest version, and a time before version 0 selects version 0.

        Raises:
            VersionNotFoundError: the version does not exist, or was cleaned up.
            WrongArgumentTypeError: ``version`` is neither a whole number nor a time.
            TableNotFoundError: the table was deleted, or deleted and created again, after it was opened.
        """
        if isinstance(version, str):
            version = moment_of(version, self.table_uri)
        if not isinstance(version, int | datetime):
            raise WrongArgumentTypeError(
                f"version is {version!r}; expected a whole number or a time",
                table=self.table_uri,
                hint="update_incremental() moves to the latest version",
                code="DELTA_INVALID_VERSION",
            )
        self._snapshot.check_same_table()
        number = version_at(self.store, version, nearest=True) if isinstance(version, datetime) else version
        self._snapshot = load_snapshot(self.store, number)

    def update_incremental(self) -> None:
        """Move to the latest version. Reads only new commits."""
        self._snapshot = self._snapshot.update()

    def restore(
        self,
        target: int | str | datetime,
        *,
        ignore_missing_files: bool = False,
        protocol_downgrade_allowed: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Make the table equal to an earlier version, in a new commit; see ``operations.restore``.

        Args:
            target: the version; or the version at a time: a datetime or ISO 8601 text, without a zone: UTC.
            ignore_missing_files: leave out files that do not exist any more, instead of raising ObjectNotFoundError.
            protocol_downgrade_allowed: only False is accepted. The protocol keeps all of its features, because the
                versions in between need them.
            dry_run: only return the metrics and the missing files.

        Returns:
            ``deltalake``'s metrics ``numRestoredFile`` and ``numRemovedFile``, ``missing_files`` (log paths of files
            that do not exist), ``dry_run`` and ``version``, the table's version after the restore.

        Raises:
            VersionNotFoundError: the version or time does not exist, or was cleaned up.
            ObjectNotFoundError: files of the version do not exist, for example because vacuum has deleted them.
            InvalidArgumentError: the target is not a version or a time, or ``protocol_downgrade_allowed`` is not False.
            CommitFailedError: another writer committed first.
            DeltaError: as ``operations.restore``.
        """
        from lakehouse_lib.operations.restore import restore

        properties = commit_properties_of(commit_properties, post_commithook_properties, table=self.table_uri)
        if protocol_downgrade_allowed:
            raise InvalidArgumentError(
                f"protocol_downgrade_allowed is {protocol_downgrade_allowed!r}; expected False",
                table=self.table_uri,
                hint="A restore keeps the protocol, because the versions in between need its features",
            )
        result = restore(
            self._latest(),
            target,
            ignore_missing_files=ignore_missing_files,
            dry_run=dry_run,
            commit_properties=properties,
        )
        self._move_on(result.version)
        return restore_metrics(result)

    def _latest(self) -> Snapshot:
        """Move to the latest version, and return it. Verbs that change the table work on the latest version."""
        self._snapshot = self._snapshot.update()
        return self._snapshot

    def _move_on(self, version: int | None) -> None:
        """Move to the version that a verb has committed, or to the latest.

        An error is only logged: the verb has succeeded, and a caller that got an error would repeat the verb. The next
        verb moves to the latest version.
        """
        try:
            self._snapshot = self._snapshot.after_commit(version)
        except DeltaError as error:
            logger.warning("the open table %s stays at version %d: %s", self.table_uri, self.version(), error)
