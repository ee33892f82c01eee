"""The live files (or the tombstones) of a version: rows of a checkpoint that no later commit changed, and the files
that later commits added.

All versions on a checkpoint share its rows; they are not copied for a later version.

A path must be live only once, even with different deletion vectors. If it were live twice, its rows would be read and
rewritten twice. Paths from commits are compared when the commits are replayed. Paths from a checkpoint are compared
when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import bools, flags_of, int64s
from lakehouse_lib.data_skipping.file_values import FileValues, Needs
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log.checkpoint.part import Part, UnreadableCheckpointError
from lakehouse_lib.log.checkpoint.rows import CheckpointRows
from lakehouse_lib.log.replay.duplicate_paths import find_repeated_numbers, find_repeats, fingerprints
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.log.replay.row_positions import distinct, drop_rows
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.protocol.file_paths import canonical
from lakehouse_lib.schema import DataType
from lakehouse_lib.statistics import Bounds, ColumnPath, WrittenStatistics, bounds_of
from lakehouse_lib.store import ObjectStore

#: If a column has more chunks than this, they are joined. Each commit adds a chunk, and a read takes time for each.
_MOST_CHUNKS = 64
_ROWS_A_CHUNK = 1_000  # with chunks of more rows, the cost per chunk does not matter


class DuplicatePathError(UnreadableCheckpointError):
    """A path is live twice in the sources that were read; other sources of the version may be valid.

    Attributes:
        path: as in the log.
    """

    code = "DELTA_PATH_TWICE"
    path = ""


class FileSet:
    """Rows of ``schema``: the rows of ``base`` whose keys are not in ``changed``, then the rows of ``added``.

    Args:
        base: None for a log without a checkpoint.
        changed: keys (``file_keys``) of every file that a commit after the base adds or removes.
        changed_positions: positions in ``base`` of changed rows that were looked up earlier; their keys are not in
            ``changed`` any more.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: pa.Schema,
        base: CheckpointRows | None,
        added: pa.Table,
        changed: Sequence[pa.Array] = (),
        changed_positions: NDArray[np.int64] | None = None,
    ) -> None:
        self.schema = schema
        self.base = base
        self.added = added
        self._store = store
        self._changed = changed
        self._changed_positions = np.zeros(0, np.int64) if changed_positions is None else changed_positions
        self._is_checked = False
        # Not cached properties: in Python 3.11, their locks would let only one table of a process be read at a time.
        self._superseded_positions: NDArray[np.int64] | None = None
        self._table: pa.Table | None = None

    @property
    def num_rows(self) -> int:
        return self._base_rows - len(self.superseded_positions) + len(self.added)

    @property
    def max_row_count(self) -> int:
        """An upper bound of ``num_rows``, from footers. Rows of the base that later commits changed are included."""
        return self._base_rows + len(self.added)

    @property
    def is_counted(self) -> bool:
        """Whether ``num_rows`` is known without reading more than footers."""
        return self.base is None or not self._changed or self._superseded_positions is not None

    def __len__(self) -> int:
        return self.num_rows

    @property
    def table(self) -> pa.Table:
        """All columns."""
        if self._table is None:
            self._table = self.columns(self.schema.names)
        return self._table

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of all rows.

        Raises:
            DuplicatePathError: ``names`` has the path, and a path is live twice.
        """
        rows = self._live(lambda base: base.columns(names), self.added.select(list(names)))
        if "path" in names:
            self.check_paths()
        return rows

    def pieces(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """``columns`` in pieces; next pieces are read ahead. ``DuplicatePathError`` is raised before the last piece."""
        if self.base is not None:
            is_looked_up = self._superseded_positions is not None
            keys = pa.nulls(0, pa.string()) if is_looked_up else self._changed_keys
            positions_by_block = [self._changed_positions]
            for piece, positions in self.base.pieces(
                names, keys, self.superseded_positions if is_looked_up else self._changed_positions
            ):
                positions_by_block.append(positions)
                yield piece
            self._superseded_positions = distinct(np.concatenate(positions_by_block))
            if "path" in names:
                self.check_paths()
        yield self.added.select(list(names))

    def stream(self, names: Sequence[str], parts: Sequence[Part] | None = None) -> Iterator[pa.Table]:
        """``columns`` in small pieces. Only columns of checkpoint parts in JSON are cached.

        Args:
            names: must include ``KEY_COLUMNS``.
            parts: the objects of the base to read; None: all.
        """
        if self.base is not None:
            is_looked_up = self._superseded_positions is not None
            keys = pa.nulls(0, pa.string()) if is_looked_up else self._changed_keys
            yield from self.base.stream(
                names, keys, self.superseded_positions if is_looked_up else self._changed_positions, parts
            )
        yield self.added.select(list(names))

    def changed_parts(self) -> list[Part]:
        """The objects of the base with a changed row; rarely also other objects (see ``CheckpointRows.parts_with``)."""
        if self.base is None:
            return []
        if self._superseded_positions is not None:
            return self.base.parts_with(pa.nulls(0, pa.string()), self.superseded_positions)
        return self.base.parts_with(self._changed_keys, self._changed_positions)

    def statistics(self, selection: WrittenStatistics) -> pa.Table:
        """The statistics of all rows; they are not cached."""
        return self._live(lambda base: base.statistics(selection), selection.from_json(self.added["stats"]))

    def bounds(self, columns: Mapping[ColumnPath, DataType]) -> dict[ColumnPath, Bounds]:
        """The bounds of leaf columns in all rows, in the order of ``columns``. Bounds of base rows are cached."""
        added = bounds_of(self.added, columns)
        if self.base is None:
            return added
        mask = np.ones(self._base_rows, np.bool_)
        mask[self.superseded_positions] = False
        is_live = bools(mask)
        base = self.base.bounds(columns)
        return {path: Bounds.concat([base[path].filter(is_live), added[path]], kind) for path, kind in columns.items()}

    def _live(self, read: Callable[[CheckpointRows], pa.Table], added: pa.Table) -> pa.Table:
        """The result of ``read`` on the base without the rows that later commits changed, followed by ``added``."""
        if self.base is None:
            return added
        return pa.concat_tables([drop_rows(read(self.base), self.superseded_positions), added])

    def select(
        self,
        needs: Needs,
        decide: Callable[[FileValues], pa.Array],
        decide_added: Callable[[pa.Table], pa.Array],
        names: Sequence[str],
    ) -> pa.Table:
        """Some columns of the selected rows; for the rows of the base see ``CheckpointRows.select``.

        Raises:
            DuplicatePathError: ``names`` has the path, and a selected path is live twice.
        """
        added = self.added.filter(decide_added(self.added)) if len(self.added) else self.added
        if self.base is None:
            return added.select(list(names))
        rows = pa.concat_tables(
            [self.base.select(needs, decide, self.superseded_positions, names), added.select(list(names))]
        )
        if "path" in names and not self._is_checked and self.schema == FILE_SCHEMA:
            self._check(rows["path"], self.base.version)  # only the selected rows are compared
        return rows

    def check_paths(self) -> None:
        """Check that no path is live twice.

        The paths of a checkpoint are read at most once, and not at all if its writer noted that they differ. Later
        versions on the same checkpoint compare only paths from commits.

        Raises:
            DuplicatePathError: a path is live twice.
        """
        if self._is_checked or self.base is None or self.schema != FILE_SCHEMA:
            return
        for path in self.duplicate_paths()[:1]:
            raise _duplicate_path(self._store, self.base.version, path)
        self._is_checked = True

    def duplicate_paths(self) -> list[str]:
        """The paths, as in the log, that are live twice.

        A path is live twice in the checkpoint, or once in the checkpoint and once in the commits after it. The replay
        of the commits finds those that are live twice in commits.
        """
        base = self.base
        if base is None:
            return []
        repeated_paths = _find_repeats(base.take(self._unchanged(base.repeats), ["path"])["path"], self._store)
        if len(self.added) and (base.has_vectors or _has_vectors(self.added)):
            added_paths = canonical(self.added["path"], self._store)
            repeated_paths += base.take(self._unchanged(base.find_paths(added_paths)), ["path"])["path"].to_pylist()
        return repeated_paths

    def check_added(self, version: int) -> None:
        """Check that the commits up to ``version`` did not make a path live twice.

        Raises:
            DuplicatePathError: a path is live twice.
        """
        if _has_vectors(self.added):  # without deletion vectors the keys are the paths, and keys are unique
            self._check(self.added["path"], version)

    def with_changes(self, keys: pa.Array, added: pa.Table) -> FileSet:
        """The files after commits that change the files of ``keys`` and add ``added``."""
        remaining = self.added
        if len(remaining) and len(keys):
            is_changed = pc.is_in(file_keys(remaining, self._store), value_set=keys)
            if pc.any(is_changed).as_py():
                remaining = remaining.filter(pc.invert(is_changed))
        added = pa.concat_tables([remaining, added])
        if added.column(0).num_chunks > max(_MOST_CHUNKS, len(added) // _ROWS_A_CHUNK):
            added = added.combine_chunks()
        is_looked_up = self._superseded_positions is not None
        return FileSet(
            self._store,
            self.schema,
            self.base,
            added,
            (keys,) if is_looked_up else (*self._changed, keys),
            self.superseded_positions if is_looked_up else self._changed_positions,
        )

    @property
    def superseded_positions(self) -> NDArray[np.int64]:
        """Positions in the base, ascending, of rows that later commits changed."""
        if self._superseded_positions is None:
            keys, positions = self._changed_keys, self._changed_positions
            if self.base is not None and len(keys):
                positions = distinct(np.concatenate([positions, self.base.find(keys)]))
            self._superseded_positions = positions
        return self._superseded_positions

    def _unchanged(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The given positions in the base, without those whose rows a later commit changed."""
        assert self.base is not None
        if not len(positions):
            return positions
        if self._superseded_positions is not None:
            return np.setdiff1d(positions, self.superseded_positions, assume_unique=True)
        remaining = np.setdiff1d(positions, self._changed_positions, assume_unique=True)
        keys = file_keys(self.base.take(remaining, KEY_COLUMNS), self._store)
        return remaining[~flags_of(pc.is_in(keys, value_set=self._changed_keys))]

    def _check(self, paths: pa.ChunkedArray, version: int) -> None:
        for path in _find_repeats(paths, self._store)[:1]:
            raise _duplicate_path(self._store, version, path)

    @property
    def _changed_keys(self) -> pa.Array:
        return pa.concat_arrays([pa.nulls(0, pa.string()), *self._changed])

    @property
    def _base_rows(self) -> int:
        return 0 if self.base is None else self.base.num_rows


def _has_vectors(files: pa.Table) -> bool:
    return bool(files["deletionVector"].null_count < len(files))


def _duplicate_path(store: ObjectStore, version: int, path: str) -> DuplicatePathError:
    error = DuplicatePathError(
        f"the file {excerpt(path)} is live twice, so its rows would be read twice",
        table=store.root,
        version=version,
        hint="repair() reports which checkpoint or log compaction is wrong: restore that object from a backup, or "
        "delete it if the commits that it covers still exist. If the commits themselves add the path twice, read an "
        "earlier version",
    )
    error.path = path
    return error


def _find_repeats(paths: pa.ChunkedArray, store: ObjectStore) -> list[str]:
    """The paths, as in the log, that name the same file as another path."""
    candidates = paths.take(
        int64s(find_repeated_numbers(fingerprints(canonical(chunk, store)) for chunk in paths.chunks))
    )
    texts: list[str] = candidates.take(int64s(find_repeats(canonical(candidates, store)))).to_pylist()
    return texts
