"""Action reconciliation: a base (a checkpoint or an older version) and the commits after it give a table state.

PROTOCOL.md, section Action Reconciliation: the state has the newest action of each file (its path and its deletion
vector), the newest protocol and metadata, the newest txn of each application, and the newest domainMetadata of each
domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools, int64s, numbers_of
from lakehouse_lib.features import domain_metadata
from lakehouse_lib.log.checkpoint.read import CheckpointState
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.log.replay.duplicate_paths import find_repeated_numbers, fingerprints
from lakehouse_lib.log.replay.file_keys import file_keys
from lakehouse_lib.log.replay.live_files import FileSet
from lakehouse_lib.protocol.actions import (
    FILE_SCHEMA,
    TOMBSTONE_SCHEMA,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
)
from lakehouse_lib.store import ObjectStore


@dataclass(frozen=True)
class TableState:
    """The state of the table at one version; ``files`` are of FILE_SCHEMA, ``tombstones`` of TOMBSTONE_SCHEMA."""

    files: FileSet
    tombstones: FileSet
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    transactions: Mapping[str, Transaction] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)


def state_of(checkpoint: CheckpointState | None, store: ObjectStore) -> TableState:
    """The state in a checkpoint; for None the empty state before the first commit."""
    # Not empty_table(), which imports pandas: that takes a second in every new Spark worker.
    files, tombstones = pa.Table.from_batches([], FILE_SCHEMA), pa.Table.from_batches([], TOMBSTONE_SCHEMA)
    if checkpoint is None:
        return TableState(FileSet(store, FILE_SCHEMA, None, files), FileSet(store, TOMBSTONE_SCHEMA, None, tombstones))
    return TableState(
        FileSet(store, FILE_SCHEMA, checkpoint.files, files),
        FileSet(store, TOMBSTONE_SCHEMA, checkpoint.tombstones, tombstones),
        checkpoint.metadata,
        checkpoint.protocol,
        checkpoint.transactions,
        checkpoint.domains,
    )


def replay(base: TableState, commits: Sequence[CommitActions], store: ObjectStore) -> TableState:
    """The state after ``commits``, ascending. The cost depends on their size; the rows of the base are not read.

    Raises:
        DuplicatePathError: the commits make a path live twice, with different deletion vectors.
    """
    if not commits:
        return base
    adds = pa.concat_tables([c.adds for c in commits])
    removes = pa.concat_tables([c.removes for c in commits])
    # In one commit the add counts as later than the remove, because a commit may replace a file by the same path.
    order = np.arange(len(commits), dtype=np.int64)
    sequence = np.concatenate(
        [
            np.repeat(2 * order + 1, [len(c.adds) for c in commits]),
            np.repeat(2 * order, [len(c.removes) for c in commits]),
        ]
    )
    keys = pa.concat_arrays([file_keys(adds, store), file_keys(removes, store)])
    last = _is_last(keys, sequence)
    new_files = _select(adds, last[: len(adds)])
    new_tombstones = _select(removes, last[len(adds) :])

    metadata, protocol = base.metadata, base.protocol
    transactions = dict(base.transactions)
    for commit in commits:
        metadata = commit.metadata or metadata
        protocol = commit.protocol or protocol
        transactions.update((t.app_id, t) for t in commit.transactions)
    files = base.files.with_changes(keys, new_files)
    files.check_added(commits[-1].version)
    return TableState(
        files,
        base.tombstones.with_changes(keys, new_tombstones),
        metadata,
        protocol,
        transactions,
        domain_metadata.reconcile(base.domains, (domain for commit in commits for domain in commit.domains)),
    )


def _select(rows: pa.Table, flags: NDArray[np.bool_]) -> pa.Table:
    """The rows with a flag; not copied if all have one."""
    return rows if flags.all() else rows.filter(bools(flags))


def _is_last(keys: pa.Array, sequence: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each row whether it has the newest action of its key."""
    flags = np.ones(len(keys), np.bool_)
    repeated = find_repeated_numbers([fingerprints(keys)])
    if len(repeated):
        codes = numbers_of(keys.take(int64s(repeated)).dictionary_encode().indices, np.int32)
        rank = sequence[repeated] * (len(keys) + 1) + repeated  # ties within a commit: the later line
        newest = np.full(int(codes.max()) + 1, -1, dtype=np.int64)
        np.maximum.at(newest, codes, rank)
        flags[repeated] = newest[codes] == rank
    return flags
