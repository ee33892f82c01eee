"""What a commit has to say because of the version that it follows, and anew where others have put one first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakehouse_lib.actions import Metadata, Protocol
from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.log import names
from lakehouse_lib.log.commit import CommitActions
from lakehouse_lib.log.in_commit_time import has_time, is_enabled, since_when, time_in
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store.base import ObjectStore


@dataclass(frozen=True)
class Predecessor:
    """The version that a commit follows.

    Attributes:
        version: -1 before the first one.
        protocol, metadata: its own; None before the first version.
        moment: when it was committed, ms since the epoch; None: not asked yet.
    """

    version: int = -1
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    moment: int | None = None

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> Predecessor:
        if snapshot is None:
            return cls()
        return cls(snapshot.version, snapshot.protocol, snapshot.metadata, snapshot.timestamp)

    def after(self, winners: Sequence[CommitActions], table: str) -> Predecessor:
        """The last of the versions that others have put after this one.

        Raises:
            LogCorruptedError: it has no in-commit timestamp, though the table has them.
        """
        protocol, metadata = self.protocol, self.metadata
        for winner in winners:
            protocol, metadata = winner.protocol or protocol, winner.metadata or metadata
        last = winners[-1]
        assert metadata is not None
        timed = has_time(metadata.configuration, last.version)
        moment = time_in(last.info, table=table, version=last.version) if timed else None
        return Predecessor(last.version, protocol, metadata, moment)

    def followed_by(self, commit: CommitActions, now: int, store: ObjectStore) -> CommitActions:
        """The commit as the version after this one.

        Args:
            commit: what every attempt has in common.
            now: ms since the epoch.
        """
        version = self.version + 1
        metadata = commit.metadata or self.metadata
        assert metadata is not None
        if not is_enabled(metadata.configuration):
            return replace(commit, version=version)
        # Also where this commit is the first to have its time inside: time must not fall back there.
        moment = now if self.version < 0 else max(now, self._moment(store) + 1)
        return replace(
            commit,
            version=version,
            metadata=None if commit.metadata is None else since_when(self.metadata, commit.metadata, version, moment),
            info={**commit.info, "inCommitTimestamp": moment},
        )

    def _moment(self, store: ObjectStore) -> int:
        if self.moment is not None:
            return self.moment
        written = store.head(names.commit(self.version))
        if written is None:
            raise VersionNotFoundError(
                f"the commit file of version {self.version} is not there",
                table=store.root,
                version=self.version,
                hint="The log was cleaned up meanwhile; open the table again",
            )
        return written.modified
