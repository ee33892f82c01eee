"""Whether a log is still the one that a version was read from: a table may be deleted and another put in its place."""

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
from lakehouse_lib.store.base import ObjectMeta, ObjectStore


@dataclass(frozen=True)
class Landmark:
    """A version as the log had it when it was read.

    Attributes:
        file: its commit file as it was listed; None: there was only a checkpoint.
        info: its commitInfo; empty where it was not read.
        table_id: the id in the table's metadata.
    """

    version: int
    file: ObjectMeta | None
    info: Mapping[str, Any]
    table_id: str

    def check(self, store: ObjectStore, current: ObjectMeta | None) -> None:
        """Check that the version is what it was.

        A commit file that looks another one is compared by what it says: restored from a backup, it has another time.

        Args:
            current: the version's commit file as it is now; None: there is none.

        Raises:
            TableNotFoundError: the version is of another table.
            VersionNotFoundError: the file is gone since it was listed: a cleanup took it.
        """
        if not self._is_same_file(current, store) and not self._says_the_same(current, store):
            raise replaced(store, self.version)

    def _is_same_file(self, current: ObjectMeta | None, store: ObjectStore) -> bool:
        if self.file is None or current is None:
            return False
        if self.file.tag and current.tag:
            return self.file.tag == current.tag
        # A file on a disk has no tag for a moment, and one that took its place within it would have the same time.
        return store.is_remote and (self.file.size, self.file.modified) == (current.size, current.modified)

    def _says_the_same(self, current: ObjectMeta | None, store: ObjectStore) -> bool:
        if current is not None and self.info:
            info = read_info(store, self.version)
            txn_id = self.info.get("txnId")
            # What else a commit of this process says is not yet as JSON has it.
            return info == self.info if txn_id is None else info.get("txnId") == txn_id
        metadata = self._metadata(current, store)
        return metadata is not None and metadata.id == self.table_id

    def _metadata(self, current: ObjectMeta | None, store: ObjectStore) -> Metadata | None:
        """The version's metadata as the log has it now. Its commit file may not be listed yet."""
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


def replaced(store: ObjectStore, version: int) -> TableNotFoundError:
    """The error for a table that was replaced since ``version`` was read."""
    return TableNotFoundError(
        f"{file_names.commit(version)} is not the commit that it was: another table is there now",
        table=store.root,
        version=version,
        hint="The table was deleted and made anew after it was opened; open it again",
    )
