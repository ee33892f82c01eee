"""The writer of a version's checkpoint: a classic checkpoint, which every reader can read, or one by the V2 spec."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa

from lakehouse_lib.features.checkpoints.v2_checkpoint import has_policy_v2
from lakehouse_lib.log import file_names
from lakehouse_lib.log.checkpoint.columns import (
    ADD,
    CLASSIC,
    DISTINCT_PATHS,
    REMOVE,
    actions_table,
    file_actions,
    write_parquet,
)
from lakehouse_lib.log.checkpoint.contents import non_file_actions, tables_of_rows
from lakehouse_lib.log.checkpoint.write_v2 import write_v2
from lakehouse_lib.log.last_checkpoint_hint import LastCheckpoint, write_hint
from lakehouse_lib.log.replay.replay import TableState
from lakehouse_lib.log.retention.tombstones import drop_expired
from lakehouse_lib.store import ObjectStore

_ROW_GROUP = 100_000


def write_checkpoint(store: ObjectStore, version: int, state: TableState, *, tombstones_since: int) -> LastCheckpoint:
    """Write the checkpoint of ``version`` that ``delta.checkpointPolicy`` selects, and update ``_last_checkpoint``.

    At most some hundred thousand files are in memory at a time. A classic checkpoint is also in memory as a whole, with
    about 150 bytes for each file.

    Args:
        tombstones_since: ms since the epoch; tombstones of this time or an earlier time are left out. A tombstone
            without a time counts as written in 1970.

    Raises:
        LogCorruptedError: the previous checkpoint cannot be read, or a path is live twice.
        StoreError: the store failed; objects already written do not form a valid checkpoint.
    """
    state.files.check_paths()
    protocol, metadata = state.protocol, state.metadata
    has_v2 = protocol is not None and metadata is not None and has_policy_v2(protocol, metadata)
    write = write_v2 if has_v2 else _write_classic
    hint = write(store, version, state, tombstones_since)
    write_hint(store, hint)
    return hint


def _write_classic(store: ObjectStore, version: int, state: TableState, since: int) -> LastCheckpoint:
    sink = io.BytesIO()
    counts = {"add": 0, "remove": 0}

    def tables() -> Iterator[pa.Table]:
        other_actions = [actions_table(CLASSIC, name, actions) for name, actions in non_file_actions(state, CLASSIC)]
        counts["other"] = sum(map(len, other_actions))
        yield pa.concat_tables(other_actions)
        removes = (drop_expired(piece, since) for piece in state.tombstones.stream(REMOVE.names))
        adds = state.files.stream(ADD.names)
        for name, pieces, kind in (("remove", removes, REMOVE), ("add", adds, ADD)):
            for piece in tables_of_rows(pieces, _ROW_GROUP):
                counts[name] += len(piece)
                yield actions_table(CLASSIC, name, file_actions(piece, kind))

    write_parquet(sink, CLASSIC, tables(), row_group=_ROW_GROUP, notes=DISTINCT_PATHS)
    data = sink.getvalue()
    store.put(file_names.checkpoint(version), data)
    return LastCheckpoint(version, sum(counts.values()), len(data), counts["add"])
