"""Possible bugs of verbs that write, change or rewrite rows, each put into the library for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.merge_plan import MergePlan
from lakehouse_lib.engine.parquet.reader import DataFile
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.operations.deletion_vector_writer import with_vectors
from lakehouse_lib.operations.dml import apply, merge, row_change, update
from lakehouse_lib.operations.dml.change_data import ChangeData
from lakehouse_lib.operations.dml.merge import _Merge
from lakehouse_lib.operations.dml.row_change import RowChangePlan
from lakehouse_lib.operations.dml.update import _Update
from lakehouse_lib.operations.files import live_records
from lakehouse_lib.operations.optimize import compact, rewrite
from lakehouse_lib.operations.optimize.deletion_vector_rebase import RebasedGroup
from lakehouse_lib.operations.optimize.rewrite import Rewrite
from lakehouse_lib.operations.optimize.z_order import deleted_positions
from lakehouse_lib.operations.write import write
from lakehouse_lib.operations.write.overwrite import ReplaceWhere
from lakehouse_lib.protocol.deletion_vector import load
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from tests.simulation.hunting import Mutant, instead


def _without_deletions(self: RebasedGroup, _marks: Sequence[BitMap64], _store: ObjectStore) -> pa.Table:
    return self.added


def _at_positions_of_old_file(store: ObjectStore, groups: Mapping[int, RebasedGroup]) -> dict[int, list[BitMap64]]:
    vectors = {}
    for number, group in groups.items():
        gone, start = BitMap64(), 0
        for (was, now), count in zip(group.vectors, live_records(group.copied).to_pylist(), strict=True):
            gone |= BitMap64([start + place for place in load(store, now) - load(store, was)])
            start += count
        vectors[number] = [gone]
    return vectors


def _in_old_order(files: Sequence[Any]) -> deleted_positions._Written:
    written = _written_of(files)
    return replace(written, order=np.arange(len(written.rows)))


_written_of = deleted_positions._Written.of


def _only_known_files(self: Any, *arguments: Any) -> None:
    if not len(self._read_keys):
        _look(self, *arguments)


def _only_if_it_writes_data(self: Any, *arguments: Any) -> None:
    if self._operation.name == "WRITE":
        _look(self, *arguments)


def _all_results(self: Any, _keys: pa.Array) -> pa.Table:
    return self._applied


_look = row_change.RowChange._look
_only = Rewrite.only
_stored = row_change._stored


def _discarded_too(self: rewrite._Rewriting, *, committed: bool) -> None:
    rewrite.discard_paths(self._store, rewrite._stored(self._written, self._store))


def _all_lost(self: Rewrite, _groups: Any) -> Rewrite:
    return _only(self, np.zeros(0, np.int64))


def _with_rows_back(files: pa.Table, vectors: Sequence[BitMap64], rows: Sequence[int], store: ObjectStore) -> pa.Table:
    return with_vectors(files, [BitMap64(list(vector)[1:] or list(vector)) for vector in vectors], rows, store)


def _with_marked_files(files: pa.Table, _sources: pa.ChunkedArray, store: ObjectStore) -> pa.Array:
    return _stored(files, pa.chunked_array([], pa.string()), store)


def _without_new_files(self: _Update, snapshot: Snapshot, *, marks: bool) -> RowChangePlan:
    plan = _plan(self, snapshot, marks=marks)
    paths = plan.candidates["path"].combine_chunks()
    known_paths = _known_files.setdefault(id(self), (self, paths))[1]
    return RowChangePlan(plan.whole_files, plan.candidates.filter(pc.is_in(paths, value_set=known_paths)))


_plan = _Update.plan
_known_files: dict[int, tuple[_Update, pa.Array]] = {}


def _without_row_ids(snapshot: Snapshot, *arguments: Any) -> WriteTarget:
    target = _target(snapshot, *arguments)
    return replace(target, layout=replace(target.layout, row_ids=None))


_target = update.update_target


def _without_preimages(self: ChangeData, changed: pa.Table) -> None:
    _add(self, changed.filter(pc.not_equal(changed["change"], "update_preimage")))


_add = ChangeData.add


def _without_the_last_key(plan: MergePlan, source: pa.Table, snapshot: Snapshot) -> Predicate | None:
    return _target_predicate(plan, source.slice(0, max(0, len(source) - 1)), snapshot)


_target_predicate = merge._target_predicate


def _without_new_files_to_merge(self: _Merge, snapshot: Snapshot, *, marks: bool) -> RowChangePlan:
    plan = _plan_merge(self, snapshot, marks=marks)
    paths = _first_files.setdefault(id(self), (self, plan.candidates["path"].combine_chunks()))[1]
    return replace(plan, candidates=plan.candidates.filter(pc.is_in(plan.candidates["path"], value_set=paths)))


_plan_merge = _Merge.plan
_first_files: dict[int, tuple[_Merge, pa.Array]] = {}


def _without_reads_of_partitions(snapshot: Snapshot, written: pa.Table) -> tuple[pa.Table, tuple[()]]:
    return _files_of_partitions(snapshot, written)[0], ()


_files_of_partitions = write.files_of_partitions


ROW_VERB_MUTANTS = (
    Mutant(
        "compaction drops the deletion vectors of concurrent commits",
        instead(RebasedGroup, "with_deletions", _without_deletions),
        ("mark", "compact"),
    ),
    Mutant(
        "compaction writes the deletions of concurrent commits at the positions in the old file",
        instead(compact, "positions_by_count", _at_positions_of_old_file),
        ("mark", "compact"),
    ),
    Mutant(
        "z_order writes the deletions of concurrent commits at the positions before sorting",
        instead(deleted_positions._Written, "of", _in_old_order),
        ("mark", "z_order"),
    ),
    Mutant(
        "a rewrite does not look for the deletions of concurrent commits",
        instead(rewrite, "_ROUNDS", 0),
        ("mark", "compact"),
    ),
    Mutant(
        "a delete does not read files that were added since its plan",
        instead(row_change.RowChange, "_look", _only_known_files),
        ("delete", "append"),
    ),
    Mutant(
        "a delete keeps its output for files that were removed since its plan",
        instead(row_change.RowChange, "_results", _all_results),
        ("delete", "compact", "append"),
    ),
    Mutant("a delete fails after the first conflict", instead(row_change, "_ROUNDS", 1), ("delete", "append")),
    Mutant(
        "a rewrite deletes files that it still needs",
        instead(rewrite._Rewriting, "discard", _discarded_too),
        ("delete", "compact", "append"),
    ),
    Mutant(
        "a rewrite leaves its files after a lost race",
        instead(rewrite, "discard_paths", lambda *_: None),
        ("delete", "z_order", "append"),
    ),
    Mutant(
        "a delete leaves its files after a lost race",
        instead(row_change, "discard_paths", lambda *_: None),
        ("delete", "compact", "append"),
    ),
    Mutant(
        "a rewrite fails if one of its groups has lost a file",
        instead(Rewrite, "only", _all_lost),
        ("delete", "compact", "append"),
    ),
    Mutant(
        "a delete reads none of its files, and deletes nothing",
        instead(row_change.RowChange, "_look", _only_if_it_writes_data),
        ("delete", "append"),
    ),
    Mutant(
        "a delete restores rows that a deletion vector has hidden",
        instead(apply, "with_vectors", _with_rows_back),
        ("delete", "mark"),
    ),
    Mutant(
        "after a lost race, a delete deletes data files to which it has only added a deletion vector",
        instead(row_change, "_stored", _with_marked_files),
        ("delete", "compact", "append"),
    ),
    Mutant(
        "an update does not read files that were added since its plan",
        instead(_Update, "plan", _without_new_files),
        ("update", "append"),
    ),
    Mutant(
        "an update keeps the rows that it wrote for files that were removed since its plan",
        instead(_Update, "writes_rows", False),
        ("update", "compact", "append"),
    ),
    Mutant(
        "an update counts rows that deletion vectors have hidden",
        instead(DataFile, "live_mask", lambda *_: None),
        ("update", "mark"),
    ),
    Mutant(
        "an update gives its rows new ids",
        instead(update, "update_target", _without_row_ids),
        ("update", "append"),
    ),
    Mutant(
        "the change data lacks the old values of updated rows",
        instead(ChangeData, "add", _without_preimages),
        ("update", "append"),
    ),
    Mutant(
        "after a lost race, the change data has the changes of the first plan, too",
        instead(ChangeData, "forget", lambda _: None),
        ("update", "compact", "append"),
    ),
    Mutant(
        "after a lost race, the change files of the first plan are left",
        instead(ChangeData, "discard", lambda *_, **__: None),
        ("update", "compact", "append"),
    ),
    Mutant(
        "a merge reads nothing, so it does not conflict with a commit that inserts the same key",
        instead(_Merge, "reads", ()),
        ("merge", "merge", "append"),
    ),
    Mutant(
        "a merge keeps the rows that it wrote for files that were removed since its plan",
        instead(_Merge, "writes_rows", False),
        ("merge", "compact", "append"),
    ),
    Mutant(
        "a merge skips a file with a key of its source",
        instead(merge, "_target_predicate", _without_the_last_key),
        ("merge", "append"),
    ),
    Mutant(
        "an overwrite by a predicate reads nothing, so it does not conflict with an append of such rows",
        instead(ReplaceWhere, "reads", ()),
        ("replace", "append"),
    ),
    Mutant(
        "an overwrite by a predicate is planned again, but its rows are not",
        instead(ReplaceWhere, "replans", row_change.FILE_CONFLICTS),
        ("replace", "compact", "append"),
    ),
    Mutant(
        "a merge does not read files that were added since its plan, so it inserts a key twice",
        instead(_Merge, "plan", _without_new_files_to_merge),
        ("insert", "insert", "delete"),
    ),
    Mutant(
        "an overwrite of partitions reads nothing, so it does not conflict with an append to them",
        instead(write, "files_of_partitions", _without_reads_of_partitions),
        ("replace partitions", "append"),
    ),
)
