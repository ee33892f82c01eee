"""The live files (or the tombstones) of a version: a checkpoint's rows but for those that later commits changed, and
those that later commits brought.

The checkpoint's rows are shared by all versions that are built on it and never copied to make a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.log.checkpoints.part import Part
from lakehouse_lib.log.checkpoints.rows import CheckpointRows, left_out
from lakehouse_lib.log.keys import file_keys
from lakehouse_lib.predicates.pruning import Known, Needs
from lakehouse_lib.statistics import WrittenStatistics
from lakehouse_lib.store.base import ObjectStore

#: A chunk a commit would make each question to the table cost as much as there were commits.
_MOST_CHUNKS = 64
_ROWS_A_CHUNK = 1_000  # of more rows a chunk costs nothing


class FileSet:
    """Rows of ``schema``: those of ``base`` whose keys are not in ``changed``, then those of ``added``.

    Args:
        base: None for a log without a checkpoint.
        changed: keys (``file_keys``) of every file that a commit after the base adds or removes.
        known: positions in ``base`` that are changed by keys not in ``changed`` any more: looked up already.
    """

    def __init__(
        self,
        store: ObjectStore,
        schema: pa.Schema,
        base: CheckpointRows | None,
        added: pa.Table,
        changed: Sequence[pa.Array] = (),
        known: NDArray[np.int64] | None = None,
    ) -> None:
        self.schema = schema
        self.base = base
        self.added = added
        self._store = store
        self._changed = changed
        self._known = np.zeros(0, np.int64) if known is None else known

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
        """Some columns of all rows."""
        return self._live(lambda base: base.columns(names), self.added.select(list(names)))

    def pieces(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """``columns`` piece by piece, of which the next ones are read meanwhile."""
        if self.base is not None:
            known = "gone" in self.__dict__
            keys = pa.nulls(0, pa.string()) if known else self._changed_keys
            gone = [self._known]
            for piece, positions in self.base.pieces(names, keys, self.gone if known else self._known):
                gone.append(positions)
                yield piece
            self.__dict__["gone"] = np.unique(np.concatenate(gone))
        yield self.added.select(list(names))

    def stream(self, names: Sequence[str], parts: Sequence[Part] | None = None) -> Iterator[pa.Table]:
        """``columns`` in small pieces, of which none is kept.

        Args:
            names: those of ``KEY_COLUMNS`` are among them.
            parts: of the base only what these objects have; None: everything.
        """
        if self.base is not None:
            known = "gone" in self.__dict__
            keys = pa.nulls(0, pa.string()) if known else self._changed_keys
            yield from self.base.stream(names, keys, self.gone if known else self._known, parts)
        yield self.added.select(list(names))

    def changed_parts(self) -> list[Part]:
        """The objects of the base of which a row is gone; hardly ever, one of which none is (``parts_with``)."""
        if self.base is None:
            return []
        if "gone" in self.__dict__:
            return self.base.parts_with(pa.nulls(0, pa.string()), self.gone)
        return self.base.parts_with(self._changed_keys, self._known)

    def statistics(self, wanted: WrittenStatistics) -> pa.Table:
        """The statistics of all rows, read anew."""
        return self._live(lambda base: base.statistics(wanted), wanted.from_json(self.added["stats"]))

    def _live(self, read: Callable[[CheckpointRows], pa.Table], added: pa.Table) -> pa.Table:
        """What is read of the base but for rows that are gone, and what is known of those that were added."""
        if self.base is None:
            return added
        return pa.concat_tables([left_out(read(self.base), self.gone), added])

    def select(
        self,
        needs: Needs,
        decide: Callable[[Known], pa.Array],
        decide_added: Callable[[pa.Table], pa.Array],
        names: Sequence[str],
    ) -> pa.Table:
        """Some columns of the rows that are kept; see ``CheckpointRows.select`` for the base's."""
        added = self.added.filter(decide_added(self.added)) if len(self.added) else self.added
        if self.base is None:
            return added.select(list(names))
        return pa.concat_tables([self.base.select(needs, decide, self.gone, names), added.select(list(names))])

    def later(self, keys: pa.Array, added: pa.Table) -> FileSet:
        """After commits that change the files of ``keys`` and bring ``added``."""
        kept = self.added
        if len(kept) and len(keys):
            gone = pc.is_in(file_keys(kept, self._store), value_set=keys)
            if pc.any(gone).as_py():
                kept = kept.filter(pc.invert(gone))
        added = pa.concat_tables([kept, added])
        if added.column(0).num_chunks > max(_MOST_CHUNKS, len(added) // _ROWS_A_CHUNK):
            added = added.combine_chunks()
        looked_up = "gone" in self.__dict__
        return FileSet(
            self._store,
            self.schema,
            self.base,
            added,
            (keys,) if looked_up else (*self._changed, keys),
            self.gone if looked_up else self._known,
        )

    @cached_property
    def gone(self) -> NDArray[np.int64]:
        """Positions in the base, ascending, of rows that later commits changed."""
        keys = self._changed_keys
        if self.base is None or not len(keys):
            return self._known
        return np.union1d(self._known, self.base.find(keys))

    @property
    def _changed_keys(self) -> pa.Array:
        return pa.concat_arrays([pa.nulls(0, pa.string()), *self._changed])

    @property
    def _base_rows(self) -> int:
        return 0 if self.base is None else self.base.num_rows
