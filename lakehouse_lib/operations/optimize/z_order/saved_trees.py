"""The saved trees of runs. With the tree of a run, a later run assigns new rows to the cells of that run.

A run writes its trees, one for each partition, into ``_lakehouse/clustering/RUN.arrow`` in the folder of the table,
after its commit. The tags of the files name the run, the number of the tree and the cell (``tags``). A tree is a hint:
if it is missing or cannot be read, all files of the partition are Z-ordered together again. Vacuum does not delete
trees, because ``_lakehouse`` is a hidden folder. ``z_order`` deletes old trees that no live file needs.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse_lib.arrow.values import as_array, strings
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.operations.optimize.z_order.curve import Curve
from lakehouse_lib.operations.optimize.z_order.keys import is_text, keys
from lakehouse_lib.operations.optimize.z_order.layout import Level, cell_count, leaf_of, tree_keys
from lakehouse_lib.store import ObjectStore

logger = logging.getLogger(__name__)

_FOLDER = "_lakehouse/clustering"
_SUFFIX = ".arrow"
_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_DESCRIPTION = b"columns"
_TREE = "tree"


@dataclass(frozen=True)
class SavedTree:
    """The cells of a run in one partition.

    Attributes:
        columns: physical names of the key columns. The ``column`` of a level is an index in this tuple.
        words: the vocabulary of each text column; None for other columns.
        levels: the levels that cut the rows into cells.
        curve: the curve whose positions the levels cut; None: the levels cut the keys.
    """

    columns: tuple[str, ...]
    words: tuple[pa.Array | None, ...]
    levels: Sequence[Level]
    curve: Curve | None = None

    @property
    def cells(self) -> int:
        """The number of cells."""
        return cell_count(self.levels)

    def to_json(self) -> str:
        """The levels and the curve as JSON."""
        curve = self.curve
        described = None if curve is None else {"kind": curve.kind, "bounds": [part.tolist() for part in curve.bounds]}
        return json.dumps({"levels": list(self.levels), "curve": described}, separators=(",", ":"))


def save(store: ObjectStore, run: str, trees: Sequence[SavedTree | None], types: Sequence[pa.DataType]) -> None:
    """Write the trees of a run. A failure is only logged, because a tree is a hint.

    Args:
        trees: trees of the same columns, at least one; None for each tree that is not saved.
        types: the types of the columns.
    """
    columns = next(tree.columns for tree in trees if tree is not None)
    described = [[name, str(kind)] for name, kind in zip(columns, types, strict=True)]
    arrays: list[pa.Array] = [strings(["" if tree is None else tree.to_json() for tree in trees])]
    fields = [pa.field(_TREE, pa.string())]
    for number, kind in enumerate(types):
        if is_text(kind):
            words = [_text(None if tree is None else tree.words[number]) for tree in trees]
            ends = [0]
            for part in words:
                ends.append(ends[-1] + len(part))
            offsets = pa.Array.from_buffers(pa.int32(), len(ends), [None, _int32s(ends)])
            arrays.append(pa.ListArray.from_arrays(offsets, pa.concat_arrays(words)))
            fields.append(pa.field(f"words{number}", arrays[-1].type))
    schema = pa.schema(fields, {_DESCRIPTION: json.dumps(described).encode()})
    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(pa.table(arrays, schema=schema))
        store.put_if_absent(tree_path(run), sink.getvalue().to_pybytes())
    except (DeltaError, pa.ArrowException) as error:
        logger.warning("%s: the trees of run %s are not saved: %s", store.root, run, error)


def load(store: ObjectStore, run: str, columns: Sequence[str], types: Sequence[pa.DataType]) -> list[SavedTree | None]:
    """The trees of a run; None for a tree that is not valid; an empty list if the file is missing or cannot be read.

    Args:
        columns: physical names of the key columns, in any order.
        types: the current types of these columns. A tree for other types is not valid.
    """
    if not _RUN.fullmatch(run):
        return []
    try:
        with store.open_input(tree_path(run)) as source, pa.ipc.open_file(source) as reader:
            stored = reader.read_all()
            described = json.loads(stored.schema.metadata[_DESCRIPTION])
        expected = dict(zip(columns, types, strict=True))
        if sorted(described) != sorted([name, str(kind)] for name, kind in expected.items()):
            return []
        names = tuple(name for name, _ in described)
        kinds = [expected[name] for name in names]
        texts = as_array(stored[_TREE]).to_pylist()
        words = [as_array(stored[f"words{number}"]) if is_text(kind) else None for number, kind in enumerate(kinds)]
    except (DeltaError, pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        logger.warning("%s: the trees of run %s cannot be read: %s", store.root, run, error)
        return []
    return [
        _tree(names, kinds, tuple(None if part is None else part[number].values for part in words), text)
        for number, text in enumerate(texts)
    ]


def delete_old(store: ObjectStore, needed: Collection[str], cutoff: int) -> None:
    """Delete the trees that were written before ``cutoff`` (ms since the epoch), except those of ``needed`` runs."""
    needed_paths = {tree_path(run) for run in needed}
    store.delete_many(
        [meta.path for meta in store.list_from(_FOLDER) if meta.path not in needed_paths and meta.modified < cutoff]
    )


def delete_all(store: ObjectStore) -> None:
    """Delete the trees of all runs. An erasure does this, because trees contain values of the key columns."""
    store.delete_many([meta.path for meta in store.list_from(_FOLDER)])


def tree_path(run: str) -> str:
    """The store path of a run's trees."""
    return f"{_FOLDER}/{run}{_SUFFIX}"


def _tree(
    columns: tuple[str, ...], types: Sequence[pa.DataType], words: tuple[pa.Array | None, ...], text: str
) -> SavedTree | None:
    """The tree in a JSON text; None if the text is not a tree for keys of these types."""
    try:
        described = json.loads(text)
        levels, curve = described["levels"], _curve(described["curve"], len(columns))
        nodes, width = 1, len(columns) if curve is None else 1
        for level in levels:
            bounds = level["bounds"]
            if len(bounds) != nodes or level["column"] not in range(width):
                return None
            if any(type(bound) is not int for row in bounds for bound in row) or any(
                row != sorted(set(row)) for row in bounds
            ):
                return None
            nodes = sum(len(row) + 1 for row in bounds)
        # Check that the bounds fit the type of the keys: if they do not, the assignment of zero rows raises an error.
        nothing = [keys(pa.nulls(0, kind), part) for kind, part in zip(types, words, strict=True)]
        leaf_of(levels, tree_keys(curve, nothing))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return SavedTree(columns, words, levels, curve)


def _curve(described: Mapping[str, Any] | None, columns: int) -> Curve | None:
    """The curve in a JSON value.

    Raises:
        ValueError: the value is not a curve through this number of columns.
    """
    if described is None:
        return None
    kind, bounds = described["kind"], tuple(np.array(part, np.int64) for part in described["bounds"])
    if kind not in ("zorder", "hilbert") or len(bounds) != columns or any((np.diff(part) < 0).any() for part in bounds):
        raise ValueError("the curve is not valid")
    return Curve(kind, bounds)


def _text(words: pa.Array | None) -> pa.Array:
    return strings([]) if words is None else words.cast(pa.string())


def _int32s(values: Sequence[int]) -> pa.Buffer:
    return pa.py_buffer(b"".join(value.to_bytes(4, "little") for value in values))
