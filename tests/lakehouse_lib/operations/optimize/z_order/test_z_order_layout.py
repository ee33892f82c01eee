import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lakehouse_lib.operations.optimize.z_order.layout import assign, divide, file_cells, file_count, leaf_of, split

KINDS = st.sampled_from([np.int8, np.int16, np.int32, np.int64])


@st.composite
def tables(draw: st.DrawFn) -> list[np.ndarray]:
    rows = draw(st.integers(1, 300))
    return [
        draw(hnp.arrays(draw(KINDS), rows, elements={"min_value": -100, "max_value": draw(st.integers(-100, 100))}))
        for _ in range(draw(st.integers(1, 3)))
    ]


@given(tables(), st.integers(1, 40), st.integers(1, 4))
def test_every_row_has_one_leaf_and_equal_rows_the_same(columns, files, blocks):
    tree = split(columns, files, blocks=blocks)
    leaves = assign(tree, columns)
    assert leaves.shape == columns[0].shape
    assert leaves.max() < sum(tree["blocks"])
    assert len(tree["files"]) == len(tree["blocks"])
    assert min(tree["files"]) >= 1
    by_row = {}
    for leaf, *row in zip(leaves.tolist(), *(column.tolist() for column in columns), strict=True):
        assert by_row.setdefault(tuple(row), leaf) == leaf


@given(tables(), st.integers(1, 40))
def test_leaves_are_boxes_in_the_order_of_the_keys(columns, files):
    """No two leaves overlap in every column, so each point is in one leaf."""
    tree = split(columns, files)
    leaves = assign(tree, columns)
    boxes = [[(c[leaves == leaf].min(), c[leaves == leaf].max()) for c in columns] for leaf in np.unique(leaves)]
    for i, box in enumerate(boxes):
        for other_box in boxes[:i]:
            assert any(a[1] < b[0] or b[1] < a[0] for a, b in zip(box, other_box, strict=True))


@given(tables(), st.integers(1, 20), st.integers(1, 3), st.data())
def test_rows_that_join_cells_stay_in_their_cell(columns, cells, blocks, data):
    earlier = split([column[::2] for column in columns], cells)
    levels = earlier["levels"][: earlier["cell_levels"]]
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(earlier["files"]), max_size=len(earlier["files"])))
    shared = data.draw(st.integers(1, 3)) if 0 in counts else 0
    tree = divide(levels, columns, counts, shared=shared, blocks=blocks)
    group_of_leaf = np.repeat(np.arange(len(tree["blocks"])), tree["blocks"])
    groups = group_of_leaf[assign(tree, columns)]
    assert np.array_equal(np.array(tree["cells"])[groups], leaf_of(levels, columns))
    # A cell has as many files as requested, or as its keys allow; the others share the last files.
    own = [number for number, cell in enumerate(tree["cells"]) if counts[cell]]
    files = [
        file
        for number in own
        for file in range(tree["first_files"][number], tree["first_files"][number] + tree["files"][number])
    ]
    assert files == list(range(sum(counts)))
    assert [file_cells(tree)[file] for file in files] == np.repeat(np.arange(len(counts)), counts).tolist()
    sharing = [number for number, cell in enumerate(tree["cells"]) if not counts[cell]]
    places = [(tree["first_files"][number], tree["first_blocks"][number]) for number in sharing]
    assert len(set(places)) == len(places)
    assert places == sorted(places)
    assert all(sum(counts) <= file < sum(counts) + shared for file, _ in places)
    assert file_count(tree) <= sum(counts) + shared


@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_leaves_of_distinct_keys_are_equal(files, columns, seed):
    random = np.random.default_rng(seed)
    keys = [random.permutation(20_000) for _ in range(columns)]
    tree = split(keys, files)
    assert tree["files"] == [1] * files
    sizes = np.bincount(assign(tree, keys), minlength=files)
    # A level divides whole rows, and each of the few levels rounds once for each node.
    assert sizes.max() - sizes.min() <= 2 + 2 * columns


def test_blocks_divide_every_file():
    random = np.random.default_rng(1)
    keys = [random.permutation(50_000), random.permutation(50_000)]
    tree = split(keys, 6, blocks=4)
    assert tree["blocks"] == [4] * 6
    sizes = np.bincount(assign(tree, keys))
    assert len(sizes) == 24
    assert sizes.max() / sizes.mean() < 1.01
    # The first leaves of each file are the leaves of the tree without blocks.
    assert np.array_equal(assign(tree, keys) // 4, assign(split(keys, 6), keys))


def test_a_value_heavier_than_a_file_is_one_leaf_of_several_files():
    keys = np.concatenate([np.full(9_000, 500), np.arange(1_000)])
    tree = split([keys], 20)
    leaves = assign(tree, [keys])
    heavy = leaves[0]
    assert np.array_equal(leaves == heavy, keys == 500)
    assert tree["files"][heavy] == 18
    assert sum(tree["files"]) == 20


def test_a_heavy_value_is_cut_by_the_other_column():
    random = np.random.default_rng(2)
    skewed = np.where(random.random(40_000) < 0.9, 7, random.integers(0, 1_000_000, 40_000))
    other = random.permutation(40_000)
    tree = split([skewed, other], 16)
    assert tree["files"] == [1] * 16
    sizes = np.bincount(assign(tree, [skewed, other]))
    assert sizes.max() / sizes.mean() < 1.3
    assert sizes.min() / sizes.mean() > 0.7


def test_weights_count_as_rows():
    keys = np.arange(1000)
    weights = np.where(keys < 100, 9.0, 1.0)
    tree = split([keys], 2, weights=weights)
    assert abs(int((assign(tree, [keys]) == 0).sum()) - 100) <= 1


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_a_point_reads_few_files_whichever_column_it_is_of(columns):
    """The bound for uniform columns is files^(-1/columns) of the files, plus slack because neighbours touch."""
    random = np.random.default_rng(columns)
    keys = [random.integers(0, 1_000_000, 100_000) for _ in range(columns)]
    leaves = assign(split([key[::4] for key in keys], 64), keys)
    for key in keys:
        low = np.array([key[leaves == leaf].min() for leaf in range(64)])
        high = np.array([key[leaves == leaf].max() for leaf in range(64)])
        points = random.integers(0, 1_000_000, 200)
        read = ((low <= points[:, None]) & (points[:, None] <= high)).sum(axis=1).mean()
        assert read <= 1.15 * 64 ** (1 - 1 / columns)


def test_the_tree_is_plain_data():
    random = np.random.default_rng(3)
    keys = [random.integers(-(2**63), 2**63 - 1, 5_000), random.integers(0, 3, 5_000).astype(np.int8)]
    tree = split(keys, 12)
    assert np.array_equal(assign(json.loads(json.dumps(tree)), keys), assign(tree, keys))


def test_the_greatest_key_of_the_type_has_a_leaf():
    keys = np.array([1, 2, 3, np.iinfo(np.int64).max] * 100)
    leaves = assign(split([keys], 4), [keys])
    assert len(set(leaves.tolist())) == 4


def test_rows_outside_the_sample_have_a_leaf():
    sample = np.arange(100, 200)
    tree = split([sample], 4)
    leaves = assign(tree, [np.array([-(2**40), 0, 150, 2**40])])
    assert leaves[0] == leaves[1] == 0
    assert leaves[3] == 3


def test_empty_and_constant_keys_are_not_cut():
    empty = np.empty(0, np.int64)
    assert split([empty], 3)["files"] == [3]
    assert len(assign(split([empty], 3), [empty])) == 0
    assert split([np.zeros(10, np.int64)], 1)["levels"] == []


def test_no_files_make_no_tree():
    with pytest.raises(ValueError, match="at least 1"):
        split([np.arange(3)], 0)
