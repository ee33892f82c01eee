"""A table that moves between its versions: to read an earlier one, or after a commit."""

from __future__ import annotations

import logging
from datetime import datetime

from lakehouse_lib.errors import DeltaError, WrongArgumentTypeError
from lakehouse_lib.log.history import moment_of, version_at
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.table.reading import ReadableTable

logger = logging.getLogger(__name__)


class VersionedTable(ReadableTable):
    """A table that can move to another version."""

    def load_as_version(self, version: int | str | datetime) -> None:
        """Move to a version, or to the version at a time (a datetime, or ISO 8601 text; without a zone: UTC).

        A time in the future is the latest version, and a time before version 0 is version 0, as in ``deltalake``.

        Raises:
            VersionNotFoundError: the version does not exist, or was cleaned up.
            WrongArgumentTypeError: it is neither a whole number nor a time.
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
        at = version_at(self.store, version, nearest=True) if isinstance(version, datetime) else version
        self._snapshot = load_snapshot(self.store, at)

    def update_incremental(self) -> None:
        """Move to the latest version, reading only new commits."""
        self._snapshot = self._snapshot.update()

    def _latest(self) -> Snapshot:
        """Move to the latest version and return it. Verbs work on the latest version, whichever version is open."""
        self._snapshot = self._snapshot.update()
        return self._snapshot

    def _move_on(self, version: int | None) -> None:
        """Move to the version that a verb has committed, or to the latest.

        An error of the store is only logged. The verb has succeeded, and a caller that got an error would repeat it.
        The next verb moves to the latest version anyway.
        """
        try:
            self._snapshot = self._snapshot.after_commit(version)
        except DeltaError as error:
            logger.warning("%s is still shown at version %d: %s", self.table_uri, self.version(), error)
