"""The layout of a Z-ordered table: which rows share a file, decided by a balanced k-d tree of equi-depth splits.

Keys are signed integers, one array per column, in the order of the column's values. Each level cuts by one column, and
columns with few values come first. If n columns remain, a node for w files is cut into w^(1/n) parts of about equal
weight, and the last column cuts a node into w parts. Each part then gets a share of the w files by its weight. Equal
keys are never separated: if the rows of one value do not fit into one file, they stay in one leaf with several files.

It is a k-d tree (Bentley, 1975) with quantiles instead of medians and with more than two children. In the experiment of
the Delta Lake paper (VLDB 2020, figure 8) it skips more files than a Z-order or a Hilbert curve of the same keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.operations.optimize.z_order.curve import Curve

Keys = NDArray[Any]

_BLOCK = 1 << 16  # rows assigned at a time, so that they fit the processor's cache


class Level(TypedDict):
    """The cuts of one column, one list for each node.

    Child i has the keys up to bounds[i], and the last child has the larger keys.
    """

    column: int
    bounds: list[list[int]]


class Tree(TypedDict):
    """A tree as JSON values. Leaves are numbered from left to right, so leaves with near numbers have near keys.

    The first levels cut the rows into cells, the next levels cut a cell into *groups*, and the last levels cut a group
    into leaves. Usually a group is a file.

    cell_levels: the number of levels that cut the rows into cells.
    files: the number of files of each group; more than 1 only if the keys allow no further cut.
    blocks: the number of leaves of each group. The leaves are blocks of the file, in this order.
    first_files: the number of the first file of each group. Several groups may share a file.
    first_blocks: the number of each group's first block in its first file.
    cells: the number of each group's cell.
    """

    levels: list[Level]
    cell_levels: int
    files: list[int]
    blocks: list[int]
    first_files: list[int]
    first_blocks: list[int]
    cells: list[int]


@dataclass(frozen=True)
class Layout:
    """The target layout of one partition's rows.

    Attributes:
        columns: the columns of the Z-order.
        words: the vocabulary of each text column; None for other columns.
        tree: a tree whose leaves are the blocks of the partition's files.
        first_file: index of the partition's first file among all files of the operation.
        curve: the curve whose positions the tree divides; None: the tree divides the keys.
    """

    columns: tuple[str, ...]
    words: tuple[pa.Array | None, ...]
    tree: Tree
    first_file: int
    curve: Curve | None = None

    @property
    def file_count(self) -> int:
        """The number of files of the partition."""
        return file_count(self.tree)


class _Node(NamedTuple):
    rows: NDArray[np.intp]
    files: int  # the number of parts to cut the node into: files, or blocks of a file
    group: int


def split(sample: Sequence[Keys], files: int, *, blocks: int = 1, weights: NDArray[np.float64] | None = None) -> Tree:
    """Cut a sample into ``files`` parts of about equal weight, and each part into ``blocks`` leaves.

    Args:
        sample: one key array for each column, all of the same length.
        files: number of parts, at least 1.
        blocks: number of leaves in each part, at least 1.
        weights: the number of rows that each sampled row represents; None: all equal.
    """
    if files < 1 or blocks < 1:
        raise ValueError(f"files is {files} and blocks is {blocks}; expected at least 1")
    rows = _Rows.of(sample, weights)
    levels, nodes = _grow([_Node(np.arange(len(sample[0])), files, 0)], rows)
    cells = [_Node(node.rows, node.files, cell) for cell, node in enumerate(nodes)]
    return _with_blocks(levels, len(levels), cells, [blocks] * len(cells), rows)


def divide(
    levels: Sequence[Level],
    sample: Sequence[Keys],
    files: Sequence[int],
    *,
    shared: int = 0,
    blocks: int = 1,
    weights: NDArray[np.float64] | None = None,
) -> Tree:
    """The tree for rows that join the cells of an earlier tree.

    Args:
        levels: the levels of the earlier tree.
        sample, blocks, weights: as in ``split``.
        files: the number of files of each cell; 0: the cell shares files with other cells.
        shared: the number of files that cells share. They are the last files of the tree.
    """
    rows = _Rows.of(sample, weights)
    leaves = leaf_of(levels, sample)
    order = np.argsort(leaves, kind="stable")
    by_cell = np.split(order, np.cumsum(np.bincount(leaves, minlength=len(files)))[:-1])
    inner, nodes = _grow(
        [_Node(part, max(count, 1), cell) for cell, (part, count) in enumerate(zip(by_cell, files, strict=True))], rows
    )
    has_files = [files[node.group] > 0 for node in nodes]
    tree = _with_blocks([*levels, *inner], len(levels), nodes, [blocks if own else 1 for own in has_files], rows)
    # Cells with 0 files share the last files, in the order of the tree. Each shared file gets about the same weight.
    first_files, first_blocks, next_file = [0] * len(nodes), [0] * len(nodes), 0
    for number, own in enumerate(has_files):
        if own:
            first_files[number] = next_file
            next_file += nodes[number].files
    sharing = [number for number, own in enumerate(has_files) if not own]
    shares = np.array([rows.mass[nodes[number].rows].sum() for number in sharing])
    middle = (np.cumsum(shares) - shares / 2) / max(shares.sum(), 1e-9)
    for number, share in zip(sharing, middle.tolist(), strict=True):
        first_files[number] = next_file + min(int(share * shared), shared - 1)
    blocks_of = [0] * (next_file + shared)
    for number in sharing:
        first_blocks[number] = blocks_of[first_files[number]]
        blocks_of[first_files[number]] += 1
    return {**tree, "first_files": first_files, "first_blocks": first_blocks}


def tree_keys(curve: Curve | None, keys: Sequence[Keys]) -> Sequence[Keys]:
    """The keys that a tree divides."""
    return keys if curve is None else [curve.positions(keys)]


def file_count(tree: Tree) -> int:
    """The number of files of a tree."""
    return max(first + files for first, files in zip(tree["first_files"], tree["files"], strict=True))


def cell_count(levels: Sequence[Level]) -> int:
    """The number of leaves of these levels."""
    return sum(len(bounds) + 1 for bounds in levels[-1]["bounds"]) if levels else 1


def file_cells(tree: Tree) -> list[int]:
    """The cell of each file. If several cells share a file, the last of them."""
    cells = [0] * file_count(tree)
    for first, files, cell in zip(tree["first_files"], tree["files"], tree["cells"], strict=True):
        cells[first : first + files] = [cell] * files
    return cells


def assign(tree: Tree, keys: Sequence[Keys]) -> Keys:
    """The leaf of each row, in the smallest unsigned type for the number of leaves."""
    return leaf_of(tree["levels"], keys)


def leaf_of(levels: Sequence[Level], keys: Sequence[Keys]) -> Keys:
    """The leaf of each row in a tree of these levels; see ``assign``."""
    rows = len(keys[0])
    prepared = [_prepared(level, keys[level["column"]].dtype) for level in levels]
    leaves = np.zeros(rows, np.min_scalar_type(cell_count(levels) - 1))
    if not levels:
        return leaves
    for start in range(0, rows, _BLOCK):
        end = min(start + _BLOCK, rows)
        node: Keys | None = None
        for level, (bounds, first_child) in zip(levels, prepared, strict=True):
            node = _descend(node, keys[level["column"]][start:end], bounds, first_child)
        leaves[start:end] = node
    return leaves


class _Rows(NamedTuple):
    """Sampled rows: keys by column, the order in which columns cut, and the rows that each row represents."""

    sample: Sequence[Keys]
    order: Sequence[int]
    mass: Keys

    @classmethod
    def of(cls, sample: Sequence[Keys], weights: NDArray[np.float64] | None) -> _Rows:
        """The rows; columns with few values cut first."""
        order = sorted(range(len(sample)), key=lambda column: len(np.unique(sample[column])))
        return cls(sample, order, np.ones(len(sample[0])) if weights is None else weights)


def _with_blocks(levels: list[Level], cell_levels: int, nodes: list[_Node], blocks: list[int], rows: _Rows) -> Tree:
    """The tree whose groups are these nodes, each cut into its number of ``blocks``. Groups do not share files."""
    inner, leaves = _grow([_Node(node.rows, blocks[number], number) for number, node in enumerate(nodes)], rows)
    file_counts = [node.files for node in nodes]
    return {
        "levels": levels + inner,
        "cell_levels": cell_levels,
        "files": file_counts,
        "blocks": np.bincount([node.group for node in leaves], minlength=len(nodes)).tolist(),
        "first_files": [0, *np.cumsum(file_counts).tolist()][:-1],
        "first_blocks": [0] * len(nodes),
        "cells": [node.group for node in nodes],
    }


def _grow(nodes: list[_Node], rows: _Rows) -> tuple[list[Level], list[_Node]]:
    """Cut all nodes, column after column, until each node has one file or no column can cut it."""
    levels: list[Level] = []
    progress = True
    while progress and any(node.files > 1 for node in nodes):
        progress = False
        for position, column in enumerate(rows.order):
            bounds: list[list[int]] = []
            children: list[_Node] = []
            for node in nodes:
                cuts, parts = _cut(node, rows.sample, rows.order[position:], rows.mass)
                bounds.append(cuts)
                children.extend(parts)
            if len(children) > len(nodes):
                levels.append({"column": column, "bounds": bounds})
                progress = True
            nodes = children
    return levels, nodes


def _cut(node: _Node, sample: Sequence[Keys], columns: Sequence[int], mass: Keys) -> tuple[list[int], list[_Node]]:
    """Cut a node by the first of the remaining columns.

    Returns:
        The bounds and the children; ([], [node]) if the node cannot or need not be cut.
    """
    if node.files == 1 or not len(node.rows):
        return [], [node]
    keys = sample[columns[0]][node.rows]
    if keys.min() == keys.max():
        return [], [node]
    columns_left = 1 + sum(bool(np.ptp(sample[column][node.rows]) != 0) for column in columns[1:])
    count = node.files if columns_left == 1 else round(node.files ** (1 / columns_left))
    if count < 2:
        return [], [node]

    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    total = np.cumsum(mass[node.rows][order])
    ends = np.flatnonzero(keys[1:] != keys[:-1])  # the last row of every value but the greatest
    per_file = total[-1] / node.files
    targets = per_file * (np.arange(1, count) * node.files // count)
    cuts = _without_thin_parts(total[ends], _nearest_boundaries(total[ends], targets), total[-1], per_file / 2)
    if not cuts:
        return [], [node]

    edges = [0, *(int(ends[index]) + 1 for index in cuts), len(keys)]
    weights = np.diff(np.concatenate([[0.0], total[[edge - 1 for edge in edges[1:]]]]))
    rows = node.rows[order]
    parts = [
        _Node(rows[start:end], files, node.group)
        for (start, end), files in zip(pairwise(edges), _share_files(weights, node.files), strict=True)
    ]
    return [int(keys[edge - 1]) for edge in edges[1:-1]], parts


def _nearest_boundaries(boundaries: Keys, targets: Keys) -> list[int]:
    """The nearest boundary of each target weight, ascending and without duplicates."""
    after = np.clip(np.searchsorted(boundaries, targets), 0, len(boundaries) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.where(targets - boundaries[before] <= boundaries[after] - targets, before, after)
    return [int(index) for index in np.unique(nearer)]


def _without_thin_parts(boundaries: Keys, chosen: list[int], whole: float, least: float) -> list[int]:
    """The chosen boundaries without the boundaries that would make a part lighter than ``least``."""
    remaining: list[int] = []
    previous = 0.0
    for index in chosen:
        if boundaries[index] - previous >= least:
            remaining.append(index)
            previous = float(boundaries[index])
    if remaining and whole - boundaries[remaining[-1]] < least:
        remaining.pop()
    return remaining


def _share_files(weights: Keys, files: int) -> list[int]:
    """The number of files for each part by its weight, at least 1. Files that remain go to the largest remainders."""
    shares = weights * (files / weights.sum())
    file_counts = np.maximum(np.floor(shares), 1).astype(np.int64)
    missing = files - int(file_counts.sum())
    if missing > 0:
        file_counts[np.argsort(file_counts - shares, kind="stable")[:missing]] += 1
    return [int(count) for count in file_counts]


def _prepared(level: Level, kind: np.dtype[Any]) -> tuple[Keys, Keys]:
    """The bounds as a matrix with one row for each node, and each node's first child.

    Rows are padded to 2^n - 1 bounds with the largest key.
    """
    widest = max(len(bounds) for bounds in level["bounds"])
    width = (1 << widest.bit_length()) - 1
    matrix = np.full((len(level["bounds"]), width), np.iinfo(kind).max, kind)
    for row, bounds in zip(matrix, level["bounds"], strict=True):
        row[: len(bounds)] = bounds
    counts = np.array([len(bounds) + 1 for bounds in level["bounds"]], np.int32)
    return matrix, np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)


def _descend(node: Keys | None, keys: Keys, bounds: Keys, first_child: Keys) -> Any:
    """The child of each row's node, by a branch-free binary search in the bounds of the node."""
    width = bounds.shape[1]
    table = bounds.ravel()
    base = None if node is None else node * np.int32(width)
    step = (width + 1) // 2
    position = (keys > table[step - 1] if base is None else keys > table[base + np.int32(step - 1)]).astype(np.int32)
    position *= np.int32(step)
    while step > 1:
        step //= 2
        probe = position + np.int32(step - 1)
        if base is not None:
            probe += base
        position += (keys > table[probe]) * np.int32(step)
    return position if node is None else first_child[node] + position
