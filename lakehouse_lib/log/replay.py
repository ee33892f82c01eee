"""Action reconciliation: a base (a checkpoint or an older snapshot) plus commits make a table state.

PROTOCOL.md, section Action Reconciliation: the newest action of a file wins, a file being its path and its deletion
vector; the newest protocol, metadata, txn of an application and domain win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import file_paths
from lakehouse_lib.actions import (
    FILE_SCHEMA,
    TOMBSTONE_SCHEMA,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
)
from lakehouse_lib.log.commit import CommitActions
from lakehouse_lib.store.base import ObjectStore


@dataclass(frozen=True)
class TableState:
    """What the log says at one version. ``files`` is of FILE_SCHEMA, ``tombstones`` of TOMBSTONE_SCHEMA."""

    files: pa.Table
    tombstones: pa.Table
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    transactions: dict[str, Transaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)


# Not empty_table(), which imports pandas: a second of every cold Spark worker.
EMPTY = TableState(pa.Table.from_batches([], FILE_SCHEMA), pa.Table.from_batches([], TOMBSTONE_SCHEMA))


def replay(base: TableState, commits: Sequence[CommitActions], store: ObjectStore) -> TableState:
    """Apply ``commits``, ascending, to ``base``. Cost: the commits' own size and one look-up a base file."""
    if not commits:
        return base
    adds = pa.concat_tables([c.adds for c in commits])
    removes = pa.concat_tables([c.removes for c in commits])
    # Within one commit the add comes after the remove: one commit may replace a file by the same path.
    order = np.arange(len(commits), dtype=np.int64)
    sequence = np.concatenate(
        [
            np.repeat(2 * order + 1, [len(c.adds) for c in commits]),
            np.repeat(2 * order, [len(c.removes) for c in commits]),
        ]
    )
    keys = pa.chunked_array([file_keys(adds, store), file_keys(removes, store)]).combine_chunks()
    last = _is_last(keys, sequence)
    new_files = adds.filter(pa.array(last[: len(adds)]))
    new_tombstones = removes.filter(pa.array(last[len(adds) :]))

    metadata, protocol = base.metadata, base.protocol
    transactions, domains = dict(base.transactions), dict(base.domains)
    for commit in commits:
        metadata = commit.metadata or metadata
        protocol = commit.protocol or protocol
        transactions.update((t.app_id, t) for t in commit.transactions)
        for domain in commit.domains:
            domains.pop(domain.domain, None)
            if not domain.removed:
                domains[domain.domain] = domain
    return TableState(
        pa.concat_tables([_without(base.files, keys, store), new_files]),
        pa.concat_tables([_without(base.tombstones, keys, store), new_tombstones]),
        metadata,
        protocol,
        transactions,
        domains,
    )


def file_keys(files: pa.Table, store: ObjectStore) -> pa.Array:
    """The primary key of a file: its canonical path, and the unique id of its deletion vector if it has one."""
    paths = file_paths.canonical(files["path"], store)
    vectors = files["deletionVector"].combine_chunks()
    if vectors.null_count == len(vectors):
        return paths
    kind = pc.struct_field(vectors, "storageType")
    inline = pc.struct_field(vectors, "pathOrInlineDv")
    at = pc.struct_field(vectors, "offset").cast(pa.string())
    with_offset = pc.binary_join_element_wise(kind, inline, "@", at, "")
    without = pc.binary_join_element_wise(kind, inline, "")
    suffix = pc.fill_null(pc.coalesce(with_offset, without), "")
    return pc.if_else(pc.equal(suffix, ""), paths, pc.binary_join_element_wise(paths, suffix, "\x00"))


def _is_last(
    keys: pa.Array, sequence: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows hold the newest action of their key."""
    codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    newest = np.full(int(codes.max()) + 1 if len(codes) else 0, -1, dtype=np.int64)
    order = np.arange(len(codes))
    rank = sequence * (len(codes) + 1) + order  # ties within a commit: the later line
    np.maximum.at(newest, codes, rank)
    return np.asarray(newest[codes] == rank)


def _without(table: pa.Table, keys: pa.Array, store: ObjectStore) -> pa.Table:
    if not len(table) or not len(keys):
        return table
    gone = pc.is_in(file_keys(table, store), value_set=keys)
    return table.filter(pc.invert(gone))
