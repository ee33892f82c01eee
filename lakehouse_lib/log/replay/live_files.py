"""The live files (or the tombstones) of a version: a checkpoint's rows but for those that later commits changed, and
those that later commits brought.

The checkpoint's rows are shared by all versions that are built on it and never copied to make a later one.

A path is live once, even with different deletion vectors: the rows of a file that is there twice would be read and
rewritten twice. What commits brought is compared when they are replayed; a checkpoint's paths, when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import flags_of, int64s
from lakehouse_lib.data_skipping.file_pruning import FileValues, Needs
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log.checkpoint.part import Part, UnreadableCheckpointError
from lakehouse_lib.log.checkpoint.rows import CheckpointRows
from lakehouse_lib.log.replay.duplicate_paths import find_repeated_numbers, find_repeats, fingerprints
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS, file_keys
from lakehouse_lib.log.replay.row_positions import drop_rows
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.protocol.file_paths import canonical
from lakehouse_lib.statistics import WrittenStatistics
from lakehouse_lib.store.base import ObjectStore

#: A chunk a commit would make each question to the table cost as much as there were commits.
_MOST_CHUNKS = 64
_ROWS_A_CHUNK = 1_000  # with chunks of more rows, the cost per chunk does not matter


class PathTwiceError(UnreadableCheckpointError):
    """A path is live twice by what was read of the log; other sources of the version may be sound.

    Attributes:
        path: as in the log.
    """

    code = "DELTA_PATH_TWICE"
    path = ""


class FileSet:
    """Rows of ``schema``: those of ``base`` whose keys are not in ``changed``, then those of ``added``.

    Args:
        base: None for a log without a checkpoint.
        changed: keys (``file_keys``) of every file that a commit after the base adds or removes.
        gone_positions: positions in ``base`` that are changed by keys not in ``changed`` any more: looked up already.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: pa.Schema,
        base: CheckpointRows | None,
        added: pa.Table,
        changed: Sequence[pa.Array] = (),
        gone_positions: NDArray[np.int64] | None = None,
    ) -> None:
        self.schema = schema
        self.base = base
        self.added = added
        self._store = store
        self._changed = changed
        self._gone_positions = np.zeros(0, np.int64) if gone_positions is None else gone_positions
        self._is_checked = False

    @property
    def num_rows(self) -> int:
        return self._base_rows - len(self.gone) + len(self.added)

    @property
    def is_counted(self) -> bool:
        """Whether ``num_rows`` is known without reading anything but footers."""
        return self.base is None or not self._changed or "gone" in self.__dict__

    def __len__(self) -> int:
        return self.num_rows

    @cached_property
    def table(self) -> pa.Table:
        """All columns."""
        return self.columns(self.schema.names)

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of all rows.

        Raises:
            PathTwiceError: ``names`` has the path, and a path is live twice.
        """
        rows = self._live(lambda base: base.columns(names), self.added.select(list(names)))
        if "path" in names:
            self.check_paths()
        return rows

    def pieces(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """``columns`` piece by piece; the next pieces are read ahead, and errors are raised with the last piece."""
        if self.base is not None:
            is_looked_up = "gone" in self.__dict__
            keys = pa.nulls(0, pa.string()) if is_looked_up else self._changed_keys
            gone = [self._gone_positions]
            for piece, positions in self.base.pieces(names, keys, self.gone if is_looked_up else self._gone_positions):
                gone.append(positions)
                yield piece
            self.__dict__["gone"] = np.unique(np.concatenate(gone))
            if "path" in names:
                self.check_paths()
        yield self.added.select(list(names))

    def stream(self, names: Sequence[str], parts: Sequence[Part] | None = None) -> Iterator[pa.Table]:
        """``columns`` in small pieces, of which none is kept.

        Args:
            names: those of ``KEY_COLUMNS`` are among them.
            parts: of the base only what these objects have; None: everything.
        """
        if self.base is not None:
            is_looked_up = "gone" in self.__dict__
            keys = pa.nulls(0, pa.string()) if is_looked_up else self._changed_keys
            yield from self.base.stream(names, keys, self.gone if is_looked_up else self._gone_positions, parts)
        yield self.added.select(list(names))

    def changed_parts(self) -> list[Part]:
        """The objects of the base of which a row is gone; hardly ever, one of which none is (``parts_with``)."""
        if self.base is None:
            return []
        if "gone" in self.__dict__:
            return self.base.parts_with(pa.nulls(0, pa.string()), self.gone)
        return self.base.parts_with(self._changed_keys, self._gone_positions)

    def statistics(self, selection: WrittenStatistics) -> pa.Table:
        """The statistics of all rows, read anew."""
        return self._live(lambda base: base.statistics(selection), selection.from_json(self.added["stats"]))

    def _live(self, read: Callable[[CheckpointRows], pa.Table], added: pa.Table) -> pa.Table:
        """What is read of the base but for rows that are gone, and what is known of those that were added."""
        if self.base is None:
            return added
        return pa.concat_tables([drop_rows(read(self.base), self.gone), added])

    def select(
        self,
        needs: Needs,
        decide: Callable[[FileValues], pa.Array],
        decide_added: Callable[[pa.Table], pa.Array],
        names: Sequence[str],
    ) -> pa.Table:
        """Some columns of the selected rows; for those of the base see ``CheckpointRows.select``.

        Raises:
            PathTwiceError: ``names`` has the path, and a selected path is live twice.
        """
        added = self.added.filter(decide_added(self.added)) if len(self.added) else self.added
        if self.base is None:
            return added.select(list(names))
        rows = pa.concat_tables([self.base.select(needs, decide, self.gone, names), added.select(list(names))])
        if "path" in names and not self._is_checked and self.schema == FILE_SCHEMA:
            self._check(rows["path"], self.base.version)  # rows that ``decide`` drops are not compared
        return rows

    def check_paths(self) -> None:
        """Compare the paths of all live files. A checkpoint's paths are read once, unless its writer noted that it has
        compared them; later versions on it compare only the paths that commits brought.

        Raises:
            PathTwiceError: one is live twice.
        """
        if self._is_checked or self.base is None or self.schema != FILE_SCHEMA:
            return
        for path in self.paths_twice()[:1]:
            raise _path_twice(self._store, self.base.version, path)
        self._is_checked = True

    def paths_twice(self) -> list[str]:
        """The paths, as the log has them, that are live twice: both times in the checkpoint, or once there and once in
        the commits after it."""
        base = self.base
        if base is None:
            return []
        twice = _find_repeats(base.take(self._unchanged(base.repeats), ["path"])["path"], self._store)
        if len(self.added) and (base.has_vectors or _has_vectors(self.added)):
            own = canonical(self.added["path"], self._store)
            twice += base.take(self._unchanged(base.find_paths(own)), ["path"])["path"].to_pylist()
        return twice

    def check_added(self, version: int) -> None:
        """Compare the paths of the files that commits up to ``version`` brought.

        Raises:
            PathTwiceError: one is live twice.
        """
        if _has_vectors(self.added):  # without, the keys of files are their paths, and those are there once
            self._check(self.added["path"], version)

    def later(self, keys: pa.Array, added: pa.Table) -> FileSet:
        """After commits that change the files of ``keys`` and bring ``added``."""
        remaining = self.added
        if len(remaining) and len(keys):
            gone = pc.is_in(file_keys(remaining, self._store), value_set=keys)
            if pc.any(gone).as_py():
                remaining = remaining.filter(pc.invert(gone))
        added = pa.concat_tables([remaining, added])
        if added.column(0).num_chunks > max(_MOST_CHUNKS, len(added) // _ROWS_A_CHUNK):
            added = added.combine_chunks()
        looked_up = "gone" in self.__dict__
        return FileSet(
            self._store,
            self.schema,
            self.base,
            added,
            (keys,) if looked_up else (*self._changed, keys),
            self.gone if looked_up else self._gone_positions,
        )

    @cached_property
    def gone(self) -> NDArray[np.int64]:
        """Positions in the base, ascending, of rows that later commits changed."""
        keys = self._changed_keys
        if self.base is None or not len(keys):
            return self._gone_positions
        return np.union1d(self._gone_positions, self.base.find(keys))

    def _unchanged(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The positions in the base whose rows no later commit changed."""
        assert self.base is not None
        if not len(positions):
            return positions
        if "gone" in self.__dict__:
            return np.setdiff1d(positions, self.gone, assume_unique=True)
        left = np.setdiff1d(positions, self._gone_positions, assume_unique=True)
        keys = file_keys(self.base.take(left, KEY_COLUMNS), self._store)
        return left[~flags_of(pc.is_in(keys, value_set=self._changed_keys))]

    def _check(self, paths: pa.ChunkedArray, version: int) -> None:
        for path in _find_repeats(paths, self._store)[:1]:
            raise _path_twice(self._store, version, path)

    @property
    def _changed_keys(self) -> pa.Array:
        return pa.concat_arrays([pa.nulls(0, pa.string()), *self._changed])

    @property
    def _base_rows(self) -> int:
        return 0 if self.base is None else self.base.num_rows


def _has_vectors(files: pa.Table) -> bool:
    return bool(files["deletionVector"].null_count < len(files))


def _path_twice(store: ObjectStore, version: int, path: str) -> PathTwiceError:
    error = PathTwiceError(
        f"the file {excerpt(path)} is live twice, so its rows would be read twice",
        table=store.root,
        version=version,
        hint="repair() reports which checkpoint or log compaction is wrong: restore that object from a backup, or "
        "delete it if the commits that it covers are still there. Where the commits themselves add the path twice, "
        "read a version from before",
    )
    error.path = path
    return error


def _find_repeats(paths: pa.ChunkedArray, store: ObjectStore) -> list[str]:
    """The log paths that name the same file as another path."""
    numbers = [fingerprints(canonical(chunk, store)) for chunk in paths.chunks]
    alike = paths.take(int64s(find_repeated_numbers(np.concatenate([np.zeros(0, np.uint64), *numbers]))))
    texts: list[str] = alike.take(int64s(find_repeats(canonical(alike, store)))).to_pylist()
    return texts
