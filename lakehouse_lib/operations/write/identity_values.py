"""Commit new files with numbers of identity columns; write the rows again if another writer has used these numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyroaring import BitMap64

from lakehouse_lib.engine.base import Engine, WriteTarget
from lakehouse_lib.engine.parquet.matching import matches_table
from lakehouse_lib.engine.parquet.updating import run_update_tasks, update_tasks
from lakehouse_lib.errors import CommitFailedError, CommitUnknownError, DeltaError, MetadataChangedError
from lakehouse_lib.expressions import Value
from lakehouse_lib.expressions.ir import Arithmetic, Column, Literal
from lakehouse_lib.features.computed_columns.identity_columns import identities
from lakehouse_lib.operations.files import discard
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.statistics import num_records
from lakehouse_lib.transaction.conflicts.checker import find_change

#: The maximum number of attempts to commit: the first one, and one after each lost race.
_ROUNDS = 100
_LONG = PrimitiveType("long")


def commit_numbers(
    snapshot: Snapshot,
    files: pa.Table,
    names: Sequence[str],
    target: WriteTarget,
    engine: Engine,
    commit: Callable[[Snapshot, pa.Table], ChangeResult],
    *,
    may_repeat: bool,
) -> ChangeResult:
    """Commit new files with numbers of identity columns.

    If another writer moves the high water marks first, the rows are written to new files with numbers after these
    marks. If nothing is committed, the files are deleted.

    Args:
        files: the files table of the new files, with numbers after the high water marks of the snapshot.
        names: the identity columns whose numbers were assigned.
        target: the write target of the files.
        commit: a function that commits a files table on a version, and moves the high water marks.
        may_repeat: whether ``commit`` may be called again, on a later version.

    Raises:
        CommitFailedError: a winning commit changed more of the metadata than high water marks and harmless properties
            (``is_harmless``), there was another conflict, or the last attempt also conflicted.
        CommitUnknownError: the store gave no answer to the commit.
    """
    rounds = _ROUNDS if may_repeat else 1
    try:
        while True:
            rounds -= 1
            try:
                return commit(snapshot, files)
            except MetadataChangedError as error:
                if rounds <= 0:
                    raise
                latest = snapshot.update()
                _check_only_marks_moved(snapshot, latest, error)
            later = _with_later_numbers(files, names, snapshot, latest, target, engine)
            if later is not files:
                discard(snapshot.store, files)
            files, snapshot = later, latest
    except CommitUnknownError:  # a version may refer to the files
        raise
    except DeltaError:
        discard(snapshot.store, files)
        raise


def _check_only_marks_moved(before: Snapshot, after: Snapshot, conflict: CommitFailedError) -> None:
    sides = (before.protocol, before.metadata), (after.protocol, after.metadata)
    breaking = find_change(*sides, range(before.version + 1, after.version + 1), after.store)
    if breaking is not None:
        raise breaking from conflict


def _with_later_numbers(
    files: pa.Table, names: Sequence[str], before: Snapshot, after: Snapshot, target: WriteTarget, engine: Engine
) -> pa.Table:
    """New files with the same rows, with numbers after the high water marks of ``after``; ``files`` if no mark moved.

    Args:
        files: the files table of files that are not committed, with numbers after the marks of ``before``.
        names: the identity columns whose numbers were assigned.
    """
    old, new = identities(before.schema), identities(after.schema)
    offsets = {name: new[name].first - old[name].first for name in names}
    values = {
        name: Value(f"{name} + {offset}", Arithmetic("+", Column((name,), _LONG), Literal(offset, _LONG), _LONG))
        for name, offset in offsets.items()
        if offset
    }
    if not values:
        return files
    counts = num_records(files).to_pylist()
    positions = [BitMap64() for _ in counts]
    for bitmap, count in zip(positions, counts, strict=True):
        bitmap.add_range(0, count)
    matches = matches_table(files["path"].to_pylist(), counts, [bitmap.serialize() for bitmap in positions])
    return run_update_tasks(engine, update_tasks(target, files, matches, values, engine.parallelism), target)
