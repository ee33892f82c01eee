"""The writer of checkpoints by the V2 spec: a top object with a unique name, and sidecars with the files (PROTOCOL.md,
sections V2 Spec and Sidecar Files). Sidecars of the previous checkpoint are reused if they are still valid.

Sidecars are durable before the top object, which refers to them, is put. Log cleanup deletes sidecars that no
checkpoint refers to and that are older than a day, and it does not see a checkpoint that is being written. So sidecars
are reused only from the newest checkpoint of the log, which a cleanup does not delete. If this checkpoint was deleted
before the new checkpoint was written, the new checkpoint is deleted, and written again with new sidecars only.
"""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakehouse_lib.arrow.values import column
from lakehouse_lib.errors import ObjectNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.checkpoint.columns import (
    ADD,
    CHECKPOINT_METADATA,
    DISTINCT_PATHS,
    REMOVE,
    SIDECAR,
    TOP,
    actions_table,
    file_actions,
    write_parquet,
)
from lakehouse_lib.log.checkpoint.contents import non_file_actions, tables_of_rows
from lakehouse_lib.log.checkpoint.parallel import map_in_order
from lakehouse_lib.log.checkpoint.part import JsonPart, ParquetPart, unreadable
from lakehouse_lib.log.checkpoint.sidecar_reuse import SidecarPlan, plan_sidecars
from lakehouse_lib.log.checkpoint.sidecars import FULL, Sidecar, put_object, put_sidecar, sidecar_action
from lakehouse_lib.log.last_checkpoint_hint import LastCheckpoint
from lakehouse_lib.log.replay.replay import TableState
from lakehouse_lib.log.replay.table_state import load_state
from lakehouse_lib.log.retention.tombstones import drop_expired, is_expired
from lakehouse_lib.log.segment import load_segment
from lakehouse_lib.store import ObjectMeta, ObjectStore
from lakehouse_lib.store.concurrent import map_requests

#: The top object of every hundredth version is also put under the classic name. Readers that do not know the V2 spec
#: find the protocol there, and report the missing feature (PROTOCOL.md, section Handling Backward compatibility).
_CLASSIC_NAME_EVERY = 100


def write_v2(store: ObjectStore, version: int, state: TableState, since: int) -> LastCheckpoint:
    """Write the checkpoint of ``version``, reusing sidecars of the checkpoint that ``state`` is built on.

    Args:
        since: ms since the epoch; removes of this time or an earlier one are left out. A sidecar of removes is dropped
            once all have expired.
    """
    state = _on_newest(store, version, state)
    base = _Base.of(state, since) if not _has_later_checkpoint(store, version) else _Base(tops=_parts(state))
    plan = plan_sidecars(base.sidecars, new_adds=len(state.files.added), new_removes=len(state.tombstones.added))
    _check_unchanged(store, version, [sidecar.meta for sidecar in plan.unchanged])
    hint = _write(store, version, state, since, base, plan)
    if plan.unchanged and not base.exists(store):
        # A cleanup has deleted the previous checkpoint meanwhile, and may have deleted its sidecars.
        assert hint.top is not None
        store.delete_many([hint.top.path])
        hint = _write(store, version, state, since, base, SidecarPlan((), tuple(base.sidecars)))
    if version % _CLASSIC_NAME_EVERY == 0:
        assert hint.top is not None
        with contextlib.suppress(ObjectNotFoundError):  # the version has expired, and a cleanup has deleted it
            store.put(file_names.checkpoint(version), store.read(hint.top.path))
    return hint


def _check_unchanged(store: ObjectStore, version: int, sidecars: Sequence[ObjectMeta]) -> None:
    """Check that the sidecars to reuse are still the objects that were opened, because they are not read again.

    Raises:
        UnreadableCheckpointError: a sidecar was deleted or replaced.
    """
    current_metas = map_requests(store, store.head, [sidecar.path for sidecar in sidecars])
    for current_meta, opened_meta in zip(current_metas, sidecars, strict=True):
        if current_meta != opened_meta:
            raise unreadable(store, opened_meta.path, version, "it was deleted or replaced after it was opened")


def _on_newest(store: ObjectStore, version: int, state: TableState) -> TableState:
    """The same state, built on the newest checkpoint.

    The state of a snapshot from ``Snapshot.update`` is still built on the checkpoint of the first snapshot.
    """
    newest = load_segment(store, version).checkpoint
    if newest is None or set(newest.parts) <= {part.meta for part in _parts(state)}:
        return state
    newer = load_state(store, version).state
    newer.files.check_paths()
    return newer


def _has_later_checkpoint(store: ObjectStore, version: int) -> bool:
    """Whether a later version has a checkpoint, so that a cleanup may delete the checkpoint before this version."""
    later = (
        file_names.parse(meta.path) for meta in store.list_from(file_names.LOG, file_names.first_name(version + 1))
    )
    return any(name is not None and name.kind not in ("commit", "compacted") for name in later)


def _parts(state: TableState) -> list[ParquetPart | JsonPart]:
    """The objects of the checkpoint that a version is built on."""
    parts = state.files.base.parts if state.files.base is not None else ()
    return [part for part in parts if isinstance(part, ParquetPart | JsonPart)]


@dataclass(frozen=True)
class _Base:
    """The checkpoint that a version is built on: its sidecars, and its top objects, which may have files, too."""

    sidecars: Sequence[Sidecar] = ()
    tops: Sequence[ParquetPart | JsonPart] = ()
    parts: dict[str, ParquetPart | JsonPart] = field(default_factory=dict)  # the opened sidecars, by path

    @classmethod
    def of(cls, state: TableState, since: int) -> _Base:
        files, tombstones = state.files.base, state.tombstones.base
        if files is None or tombstones is None:
            return cls()
        parts = {part.path: part for part in _parts(state) if part.path.startswith(f"{file_names.SIDECARS}/")}
        tops = [part for part in _parts(state) if part.path not in parts]
        if not parts:
            return cls(tops=tops)
        adds, removes = files.rows_by_part, tombstones.rows_by_part
        changed_paths = {part.path for part in (*state.files.changed_parts(), *state.tombstones.changed_parts())}
        sidecars = [
            Sidecar(
                part.meta,
                adds.get(path, 0),
                removes.get(path, 0),
                stale=path in changed_paths,
                expired=path in removes and _has_expired(part, since),
            )
            for path, part in parts.items()
        ]
        return cls(sidecars, tops, parts)

    def exists(self, store: ObjectStore) -> bool:
        return all(store.head(part.path) == part.meta for part in self.tops)


def _has_expired(part: ParquetPart | JsonPart, since: int) -> bool:
    """Whether the footer shows that all removes have expired."""
    if not isinstance(part, ParquetPart):
        return False
    blocks = [block for block in range(part.blocks) if part.count("remove", block)]
    extremes = [part.extremes("remove", block, "deletionTimestamp") for block in blocks]
    return all(extreme is not None and is_expired(extreme[1], since) for extreme in extremes)


def _write(
    store: ObjectStore, version: int, state: TableState, since: int, base: _Base, plan: SidecarPlan
) -> LastCheckpoint:
    """Write new sidecars, and then the top object, which refers to the new and the reused sidecars."""
    sources = [*base.tops, *(base.parts[sidecar.meta.path] for sidecar in plan.rewritten)] if plan.unchanged else None
    adds = state.files.stream(ADD.names, sources)
    removes = (drop_expired(piece, since) for piece in state.tombstones.stream(REMOVE.names, sources))
    new = [
        *map_in_order(
            lambda piece: put_sidecar(store, "remove", file_actions(piece, REMOVE)), tables_of_rows(removes, FULL)
        ),
        *map_in_order(lambda piece: put_sidecar(store, "add", file_actions(piece, ADD)), tables_of_rows(adds, FULL)),
    ]
    sidecars = [*plan.unchanged, *new]
    other_actions = [
        ("checkpointMetadata", column([{"version": version}], CHECKPOINT_METADATA)),
        *non_file_actions(state, TOP),
        ("sidecar", column([sidecar_action(sidecar.meta) for sidecar in sidecars], SIDECAR)),
    ]
    sink = io.BytesIO()
    rows = pa.concat_tables([actions_table(TOP, name, actions) for name, actions in other_actions])
    write_parquet(sink, TOP, [rows], row_group=len(rows), notes=DISTINCT_PATHS)
    top = put_object(store, file_names.checkpoint_v2(version, uuid.uuid4()), sink.getvalue())
    return LastCheckpoint(
        version,
        sum(len(actions) for _, actions in other_actions) + sum(sidecar.adds + sidecar.removes for sidecar in sidecars),
        top.size + sum(sidecar.meta.size for sidecar in sidecars),
        sum(sidecar.adds for sidecar in sidecars),
        top,
    )
