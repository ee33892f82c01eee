"""The version that a commit follows. The row ids and the in-commit timestamp of the commit depend on this version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.features import in_commit_timestamp, row_tracking
from lakehouse_lib.features.in_commit_timestamp import effective_properties
from lakehouse_lib.log import file_names
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.log.table_identity import CommitFingerprint
from lakehouse_lib.protocol.actions import FILE_SCHEMA, Metadata, Protocol
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore


@dataclass(frozen=True)
class CommitBase:
    """The version that a commit follows.

    Attributes:
        version: -1 before the first commit.
        protocol, metadata: the protocol and metadata of that version; None before the first commit.
        commit_timestamp: ms since the epoch; None: not read yet.
        row_id_high_water_mark: the highest row id of the table; -1: no row has an id.
        fingerprint: the identity of its commit file; None before the first commit.
        files_with_row_ids: files (a files table) to which winning commits have assigned row ids since the read version,
            newest first.
    """

    version: int = -1
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    commit_timestamp: int | None = None
    row_id_high_water_mark: int = -1
    fingerprint: CommitFingerprint | None = None
    files_with_row_ids: pa.Table = field(default_factory=lambda: pa.Table.from_batches([], FILE_SCHEMA))

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> CommitBase:
        if snapshot is None:
            return cls()
        highest = row_tracking.highest(snapshot.domains.values(), table=snapshot.store.root, version=snapshot.version)
        row_id_high_water_mark = -1 if highest is None else highest
        return cls(
            snapshot.version,
            snapshot.protocol,
            snapshot.metadata,
            snapshot.timestamp,
            row_id_high_water_mark,
            snapshot.fingerprint,
        )

    def after(self, winners: Sequence[CommitActions], table: str) -> CommitBase:
        """The last of the winning commits, as the version that the next attempt follows.

        Raises:
            LogCorruptedError: the table has in-commit timestamps and the last commit has none, or a row id high water
                mark is not valid.
        """
        protocol, metadata, row_id_high_water_mark = self.protocol, self.metadata, self.row_id_high_water_mark
        for winner in winners:
            protocol, metadata = winner.protocol or protocol, winner.metadata or metadata
            highest = row_tracking.highest(winner.domains, table=table, version=winner.version)
            row_id_high_water_mark = row_id_high_water_mark if highest is None else max(row_id_high_water_mark, highest)
        last = winners[-1]
        assert metadata is not None
        assert protocol is not None
        files_with_row_ids = self.files_with_row_ids
        if row_tracking.assigns_row_ids(protocol, metadata):
            newer = [winner.adds.filter(winner.adds["baseRowId"].is_valid()) for winner in reversed(winners)]
            files_with_row_ids = pa.concat_tables([*newer, files_with_row_ids])
        has_timestamp = in_commit_timestamp.has_time(
            effective_properties(metadata.configuration, protocol), last.version
        )
        timestamp = (
            in_commit_timestamp.timestamp_of(last.info, table=table, version=last.version) if has_timestamp else None
        )
        return CommitBase(last.version, protocol, metadata, timestamp, row_id_high_water_mark, None, files_with_row_ids)

    def complete(self, commit: CommitActions, now: int, store: ObjectStore) -> CommitActions:
        """The commit as the version after this one, with its row ids and in-commit timestamp.

        Args:
            commit: the actions that are the same in each attempt.
            now: ms since the epoch.

        Raises:
            DeltaProtocolError: rows need ids, and an added file has no row count.
            VersionNotFoundError: the time of this version is needed, and its commit file was cleaned up.
        """
        commit = replace(commit, version=self.version + 1)
        return self._with_time(self._with_row_ids(commit, store.root), now, store)

    def _with_time(self, commit: CommitActions, now: int, store: ObjectStore) -> CommitActions:
        metadata = commit.metadata or self.metadata
        assert metadata is not None
        properties = effective_properties(metadata.configuration, commit.protocol or self.protocol)
        if not in_commit_timestamp.is_enabled(properties):
            return commit
        timestamp = in_commit_timestamp.next_timestamp(now, None if self.version < 0 else self._commit_timestamp(store))
        if commit.metadata is not None:
            previous = self.metadata
            if previous is not None:
                previous = replace(previous, configuration=effective_properties(previous.configuration, self.protocol))
            metadata = in_commit_timestamp.with_enablement(previous, commit.metadata, commit.version, timestamp)
            commit = replace(commit, metadata=metadata)
        return replace(commit, info={**commit.info, "inCommitTimestamp": timestamp})

    def _with_row_ids(self, commit: CommitActions, table: str) -> CommitActions:
        metadata, protocol = commit.metadata or self.metadata, commit.protocol or self.protocol
        assert metadata is not None
        assert protocol is not None
        if not row_tracking.assigns_row_ids(protocol, metadata):
            return commit
        adds, domain = row_tracking.assign(
            commit.adds, self.row_id_high_water_mark, table=table, version=commit.version
        )
        removes = (
            row_tracking.with_current_row_ids(commit.removes, self.files_with_row_ids)
            if len(self.files_with_row_ids)
            else commit.removes
        )
        info = (
            row_tracking.with_preserved_tag(commit.info) if row_tracking.is_enabled(protocol, metadata) else commit.info
        )
        domains = commit.domains if domain is None else (*commit.domains, domain)
        return replace(commit, adds=adds, removes=removes, domains=domains, info=info)

    def _commit_timestamp(self, store: ObjectStore) -> int:
        if self.commit_timestamp is not None:
            return self.commit_timestamp
        commit_file = store.head(file_names.commit(self.version))
        if commit_file is None:
            raise VersionNotFoundError(
                f"the commit file of version {self.version} does not exist",
                table=store.root,
                version=self.version,
                hint="The log was cleaned up concurrently; open the table again",
            )
        return commit_file.modified
