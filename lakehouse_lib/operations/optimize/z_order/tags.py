"""The tags of an add action that describe a file's Z-order (PROTOCOL.md, section Add File).

The tags of a Z-ordered file have the run, the columns and the target file size, so that the next run does not rewrite
the file. If the run has a saved tree (``saved_trees``), they also have the tree's number and the file's cell in it.
Other engines keep unknown tags, or drop them when they rewrite a file. A file without these tags is Z-ordered again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import as_array, bools, column, flags_of, int64s, literal, numbers_of, strings
from lakehouse_lib.engine.base import is_small
from lakehouse_lib.protocol.actions import FILE_SCHEMA, STRING_MAP

#: The run of z_order that wrote the file: a UUID. The key ranges of files of a run hardly overlap.
RUN = "lakehouse.clustering.run"
#: The columns' physical names as a JSON array, sorted, because their order does not matter.
COLUMNS = "lakehouse.clustering.columns"
#: The target file size of the run, in bytes.
TARGET_SIZE = "lakehouse.clustering.targetSize"
#: The layout of rows; files with another layout are Z-ordered again.
LAYOUT = "lakehouse.clustering.layout"
#: ``TREE.CELL``: the number of the tree among the run's saved trees, and the cell in this tree.
CELL = "lakehouse.clustering.cell"

_NAMES = (RUN, COLUMNS, TARGET_SIZE, LAYOUT, CELL)
#: The values of LAYOUT by the verb's argument.
LAYOUTS = {"kd": "kd-1", "zorder": "zorder-1", "hilbert": "hilbert-1"}
#: The columns of a files table that ``copy_tags`` needs.
TAG_COLUMNS = ("tags", "clusteringProvider")
_BYTES = "^[0-9]{1,18}$"  # an int64 holds every number of 18 digits
_CELL = r"^(?P<tree>[0-9]{1,9})\.(?P<cell>[0-9]{1,9})$"


class Place(NamedTuple):
    """The place of a file in a run.

    Attributes:
        run: the name of the run, a UUID.
        cell: the value of CELL, or None.
        layout: a key of LAYOUTS.
    """

    run: str
    cell: str | None = None
    layout: str = "kd"


class Places(NamedTuple):
    """The places of files, one entry for each file.

    Attributes:
        runs: the index of the run in ``names``, or -1.
        trees, cells: the number of the tree and of the cell, or -1.
        names: the names (UUIDs) of the runs.
    """

    runs: NDArray[np.int64]
    trees: NDArray[np.int64]
    cells: NDArray[np.int64]
    names: pa.Array


def with_tags(
    files: pa.Table, places: Sequence[Place], columns: Iterable[str], target_size: int, *, provider: str | None = None
) -> pa.Table:
    """Files that a run has written, with its tags.

    Args:
        files: a files table.
        places: the place of each file.
        columns: physical names of the columns of the Z-order.
        target_size: the run's target size of a file in bytes.
        provider: ``clusteringProvider`` of the files.
    """
    common = {COLUMNS: _columns(columns), TARGET_SIZE: str(target_size)}
    tags = [
        {RUN: place.run, LAYOUT: LAYOUTS[place.layout], **common, **({} if place.cell is None else {CELL: place.cell})}
        for place in places
    ]
    return _with(files, column(tags, STRING_MAP), provider)


def copy_tags(file: Mapping[str, Any], files: pa.Table) -> pa.Table:
    """The copies of a Z-ordered file, with its tags and its clusteringProvider.

    A copy that is small for the target size of the run gets no tags, so that the next run merges it with other files.

    Args:
        file: TAG_COLUMNS of the Z-ordered file. Other tags are dropped, because they may be wrong for fewer rows.
        files: files table of the copies, which have the file's rows in the same order.
    """
    run_tags = {name: value for name, value in dict(file["tags"] or ()).items() if name in _NAMES}
    if not run_tags:
        return files
    tags = column([run_tags], STRING_MAP).take(int64s(np.zeros(len(files), np.int64)))
    with_run_tags = _with(files, tags, file["clusteringProvider"])
    small = is_small(numbers_of(files["size"], np.int64), int(target_sizes(with_run_tags).max(initial=0)))
    return pa.concat_tables([with_run_tags.filter(bools(~small)), files.filter(bools(small))])


def z_ordered_by(
    files: pa.Table, columns: Iterable[str], target_size: int, layout: str | None = None
) -> NDArray[np.bool_]:
    """Which files were Z-ordered by these columns, in any order, for about this file size.

    The target size must be more than half and less than twice the run's target size. A change from 100 to 128 MiB, for
    example, does not justify a rewrite.

    Args:
        files: a files table with at least ``tags``.
        columns: physical names.
        target_size: bytes.
        layout: a key of LAYOUTS; None: any of them.
    """
    sizes = target_sizes(files)
    is_near_size = (sizes * 2 > target_size) & (sizes < target_size * 2)
    has_columns = pc.equal(_value(files, COLUMNS), literal(_columns(columns), pa.string()))
    if layout is not None:
        has_columns = pc.and_kleene(has_columns, pc.equal(_value(files, LAYOUT), literal(LAYOUTS[layout], pa.string())))
    return is_near_size & flags_of(has_columns)


def target_sizes(files: pa.Table) -> NDArray[np.int64]:
    """The target size in bytes of the run that Z-ordered each file; 0 for a file that is not Z-ordered."""
    text = _value(files, TARGET_SIZE)
    has_layout = pc.is_in(_value(files, LAYOUT), value_set=strings(list(LAYOUTS.values())))
    is_known = pc.and_kleene(pc.match_substring_regex(text, _BYTES), has_layout)
    size_text = pc.if_else(is_known, text, literal("0", pa.string()))
    sizes = pc.fill_null(pc.cast(size_text, pa.int64()), literal(0, pa.int64()))
    return numbers_of(sizes, np.int64)


def places_of(files: pa.Table) -> Places:
    """The places of files in their runs.

    Args:
        files: a files table with at least ``tags``.
    """
    runs = as_array(_value(files, RUN)).dictionary_encode()
    parts = pc.extract_regex(as_array(_value(files, CELL)), _CELL)
    trees, cells = (_number(pc.struct_field(parts, name)) for name in ("tree", "cell"))
    numbers = pc.fill_null(runs.indices.cast(pa.int64()), literal(-1, pa.int64()))
    return Places(numbers_of(numbers, np.int64), trees, cells, runs.dictionary)


def layout_of(files: pa.Table) -> str | None:
    """The layout of the Z-ordered files, the first of LAYOUTS if they have several; None: no file is Z-ordered."""
    values = pc.unique(_value(files, LAYOUT)).to_pylist()
    return next((name for name, value in LAYOUTS.items() if value in values), None)


def _number(text: pa.Array) -> NDArray[np.int64]:
    return numbers_of(pc.fill_null(pc.cast(text, pa.int64()), literal(-1, pa.int64())), np.int64)


def _columns(names: Iterable[str]) -> str:
    return json.dumps(sorted(names), ensure_ascii=False)


def _value(files: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.map_lookup(files["tags"], literal(name, pa.string()), "last")


def _with(files: pa.Table, tags: pa.Array, provider: str | None) -> pa.Table:
    files = files.set_column(files.column_names.index("tags"), FILE_SCHEMA.field("tags"), tags)
    name = "clusteringProvider"
    return files.set_column(files.column_names.index(name), FILE_SCHEMA.field(name), strings([provider] * len(files)))
