"""A balanced multi-way k-d tree of equi-depth splits: which rows belong into one file.

Keys are signed integers, one array a column, whose order is the order of the column's values. Level by level, one
column a level and few-valued columns first, a node that is to hold w files is cut into w^(1/columns left) parts of
equal weight, the last column into w; each part then gets its share of the w files by its real weight. Equal keys are
never cut apart, so a value heavier than a file stays in one leaf that is dealt several files.

The idea is the k-d tree's (Bentley, 1975), with quantiles for medians and many children for two: on the experiment of
the Delta Lake paper (VLDB 2020, figure 8) it skips more files than a Z-order or a Hilbert curve of the same keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[Any]

_BLOCK = 1 << 16  # rows assigned at a time: what fits the processor's cache


class Level(TypedDict):
    """One column's cuts, a list a node: child i of a node holds the keys up to bounds[i], its last child the rest."""

    column: int
    bounds: list[list[int]]


class Tree(TypedDict):
    """Plain data (JSON). Leaves are numbered from left to right, so neighbours in number are neighbours in space.

    files: how many files each group of leaves is dealt; more than one only where the keys allow no further cut.
    blocks: how many leaves the group has: the blocks of the file, in their order.
    """

    levels: list[Level]
    files: list[int]
    blocks: list[int]


class _Node(NamedTuple):
    rows: NDArray[np.intp]
    files: int  # or blocks
    group: int


def split(sample: Sequence[Keys], files: int, *, blocks: int = 1, weights: NDArray[np.float64] | None = None) -> Tree:
    """Cut a sample into ``files`` parts of about equal weight, and each of them into ``blocks`` the same way.

    Args:
        sample: one key array a column, all of one length.
        files: parts wanted, at least 1.
        blocks: leaves wanted in each, at least 1.
        weights: how many rows a sampled row stands for; None: all the same.
    """
    if files < 1 or blocks < 1:
        raise ValueError(f"files and blocks must be at least 1, not {files} and {blocks}")
    rows = len(sample[0])
    mass = np.ones(rows) if weights is None else weights
    order = sorted(range(len(sample)), key=lambda column: len(np.unique(sample[column])))
    levels, nodes = _grow([_Node(np.arange(rows), files, 0)], sample, order, mass)
    dealt = [node.files for node in nodes]
    if blocks > 1:
        inner, nodes = _grow([_Node(node.rows, blocks, group) for group, node in enumerate(nodes)], sample, order, mass)
        counts = np.bincount([node.group for node in nodes], minlength=len(dealt)).tolist()
        return {"levels": levels + inner, "files": dealt, "blocks": counts}
    return {"levels": levels, "files": dealt, "blocks": [1] * len(dealt)}


def assign(tree: Tree, keys: Sequence[Keys]) -> Keys:
    """The leaf of every row, in the smallest unsigned type that counts the leaves."""
    rows = len(keys[0])
    leaf_type = np.min_scalar_type(sum(tree["blocks"]) - 1)
    levels = [_prepared(level, keys[level["column"]].dtype) for level in tree["levels"]]
    leaves = np.zeros(rows, leaf_type)
    if not levels:
        return leaves
    for start in range(0, rows, _BLOCK):
        end = min(start + _BLOCK, rows)
        node: Keys | None = None
        for level, (bounds, first_child) in zip(tree["levels"], levels, strict=True):
            node = _descend(node, keys[level["column"]][start:end], bounds, first_child)
        leaves[start:end] = node
    return leaves


def _grow(
    nodes: list[_Node], sample: Sequence[Keys], order: Sequence[int], mass: Keys
) -> tuple[list[Level], list[_Node]]:
    """Cut every node, column after column, until each is to hold one file or no column can cut it."""
    levels: list[Level] = []
    progress = True
    while progress and any(node.files > 1 for node in nodes):
        progress = False
        for position, column in enumerate(order):
            bounds: list[list[int]] = []
            children: list[_Node] = []
            for node in nodes:
                cuts, parts = _cut(node, sample, order[position:], mass)
                bounds.append(cuts)
                children.extend(parts)
            if len(children) > len(nodes):
                levels.append({"column": column, "bounds": bounds})
                progress = True
            nodes = children
    return levels, nodes


def _cut(node: _Node, sample: Sequence[Keys], columns: Sequence[int], mass: Keys) -> tuple[list[int], list[_Node]]:
    """Cut a node by the first of the columns left; ([], [node]) where it cannot or need not be cut."""
    if node.files == 1 or not len(node.rows):
        return [], [node]
    keys = sample[columns[0]][node.rows]
    if keys.min() == keys.max():
        return [], [node]
    left = 1 + sum(bool(np.ptp(sample[column][node.rows]) != 0) for column in columns[1:])
    count = node.files if left == 1 else round(node.files ** (1 / left))
    if count < 2:
        return [], [node]

    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    total = np.cumsum(mass[node.rows][order])
    ends = np.flatnonzero(keys[1:] != keys[:-1])  # the last row of every value but the greatest
    per_file = total[-1] / node.files
    targets = per_file * (np.arange(1, count) * node.files // count)
    cuts = _thick(total[ends], _nearest(total[ends], targets), total[-1], per_file / 2)
    if not cuts:
        return [], [node]

    edges = [0, *(int(ends[index]) + 1 for index in cuts), len(keys)]
    weights = np.diff(np.concatenate([[0.0], total[[edge - 1 for edge in edges[1:]]]]))
    rows = node.rows[order]
    parts = [
        _Node(rows[start:end], files, node.group)
        for (start, end), files in zip(pairwise(edges), _deal(weights, node.files), strict=True)
    ]
    return [int(keys[edge - 1]) for edge in edges[1:-1]], parts


def _nearest(boundaries: Keys, targets: Keys) -> list[int]:
    """For every target weight the boundary nearest to it, each once, ascending."""
    after = np.clip(np.searchsorted(boundaries, targets), 0, len(boundaries) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.where(targets - boundaries[before] <= boundaries[after] - targets, before, after)
    return [int(index) for index in np.unique(nearer)]


def _thick(boundaries: Keys, chosen: list[int], whole: float, least: float) -> list[int]:
    """The chosen boundaries, less those that would leave a part lighter than ``least``."""
    remaining: list[int] = []
    previous = 0.0
    for index in chosen:
        if boundaries[index] - previous >= least:
            remaining.append(index)
            previous = float(boundaries[index])
    if remaining and whole - boundaries[remaining[-1]] < least:
        remaining.pop()
    return remaining


def _deal(weights: Keys, files: int) -> list[int]:
    """Whole files for parts of these weights: at least one each, the rest where a file is heaviest."""
    shares = weights * (files / weights.sum())
    dealt = np.maximum(np.floor(shares), 1).astype(np.int64)
    missing = files - int(dealt.sum())
    if missing > 0:
        dealt[np.argsort(dealt - shares, kind="stable")[:missing]] += 1
    return [int(count) for count in dealt]


def _prepared(level: Level, kind: np.dtype[Any]) -> tuple[Keys, Keys]:
    """Bounds as a matrix, a row a node, filled up to 2^n - 1 with a key that none exceeds; each node's first child."""
    widest = max(len(bounds) for bounds in level["bounds"])
    width = (1 << widest.bit_length()) - 1
    matrix = np.full((len(level["bounds"]), width), np.iinfo(kind).max, kind)
    for row, bounds in zip(matrix, level["bounds"], strict=True):
        row[: len(bounds)] = bounds
    counts = np.array([len(bounds) + 1 for bounds in level["bounds"]], np.int32)
    return matrix, np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)


def _descend(node: Keys | None, keys: Keys, bounds: Keys, first_child: Keys) -> Any:
    """From the nodes of one level to their children: a binary search in every row's own node, without branches."""
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
