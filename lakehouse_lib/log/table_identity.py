"""The identity of a table's log, by which a table that was deleted and created again is detected."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_lib.errors import TableNotFoundError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.commits.commit_file import read_info
from lakehouse_lib.log.replay.table_state import load_state
from lakehouse_lib.log.segment import LISTING_WAITS
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.store import ObjectMeta, ObjectStore


@dataclass(frozen=True)
class CommitFingerprint:
    """What identifies the commit of a version, as it was read from the log.

    Attributes:
        file: its commit file in the listing; None: the log had only a checkpoint or a compaction of it.
        info: its commitInfo; empty if it was not read.
        table_id: the id in the table's metadata.
    """

    version: int
    file: ObjectMeta | None
    info: Mapping[str, Any]
    table_id: str

    def check(self, store: ObjectStore, current: ObjectMeta | None) -> None:
        """Check that the version in the log is still the same commit.

        If the commit file has another time or tag, its content is compared, because it may have been restored from a
        backup.

        Args:
            current: the version's commit file as it is now; None: it does not exist.

        Raises:
            TableNotFoundError: the version belongs to another table.
            VersionNotFoundError: the file was cleaned up after it was listed.
        """
        if not self._is_same_file(current, store) and not self._has_same_content(current, store):
            raise replaced_error(store, self.version)

    def _is_same_file(self, current: ObjectMeta | None, store: ObjectStore) -> bool:
        if self.file is None or current is None:
            return False
        if self.file.tag and current.tag:
            return self.file.tag == current.tag
        # A young file on a disk has no tag, and a file that replaced it at once could have the same modification time.
        return store.is_remote and (self.file.size, self.file.modified) == (current.size, current.modified)

    def _has_same_content(self, current: ObjectMeta | None, store: ObjectStore) -> bool:
        if current is not None and self.info:
            info = read_info(store, self.version)
            txn_id = self.info.get("txnId")
            # A txnId is enough. If this process made the commit, other fields of ``self.info`` may have other Python
            # types than in the parsed JSON.
            return info == self.info if txn_id is None else info.get("txnId") == txn_id
        metadata = self._metadata(current, store)
        return metadata is not None and metadata.id == self.table_id

    def _metadata(self, current: ObjectMeta | None, store: ObjectStore) -> Metadata | None:
        """The version's metadata as the log has it now; None: the log does not have the version.

        If a stale listing lacks the commit file, the log is listed again.
        """
        for wait in (*LISTING_WAITS, None):
            try:
                return load_state(store, self.version).state.metadata
            except TableNotFoundError:
                return None
            except VersionNotFoundError:
                if current is None:
                    return None
                if wait is None or store.head(file_names.commit(self.version)) is None:
                    raise
                time.sleep(wait)
        raise AssertionError("unreachable")


def replaced_error(store: ObjectStore, version: int) -> TableNotFoundError:
    """The error for a table that was replaced after ``version`` was read."""
    return TableNotFoundError(
        f"{file_names.commit(version)} is another commit than before: the location has another table now",
        table=store.root,
        version=version,
        hint="The table was deleted and created again after it was opened; open it again",
    )
