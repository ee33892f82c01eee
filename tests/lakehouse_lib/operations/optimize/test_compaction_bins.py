"""The bins of a compaction, compared with a definition that takes one file at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.operations.optimize.compact import compaction_bins
from lakehouse_lib.protocol.actions import FILE_SCHEMA

TARGET = 20

#: Of each file: its partition, its size, and how many of its ten rows a deletion vector hides.
FILES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.sampled_from([0, 0, 0, 5])), max_size=25)


def bins_by_definition(files: list[tuple[int, int, int]]) -> list[list[int]]:
    bins: list[list[int]] = []
    sizes = [size * (10 - hidden) // 10 for _, size, hidden in files]
    for partition in range(3):
        small = sorted((sizes[row], row) for row, file in enumerate(files) if file[0] == partition)
        current: list[int] = []
        for size, row in small:
            if size >= TARGET / 2:
                continue
            if current and sum(sizes[other] for other in current) + size > TARGET:
                bins.append(current)
                current = []
            current.append(row)
        bins.append(current)
    bins += [[row] for row, size in enumerate(sizes) if size >= TARGET / 2]
    return [rows for rows in bins if len(rows) > 1 or (rows and files[rows[0]][2])]


@given(FILES)
def test_bins_are_those_of_the_definition(files: list[tuple[int, int, int]]) -> None:
    rows = [
        {
            "path": str(number),
            "size": size,
            "stats": '{"numRecords":10}',
            "deletionVector": {"storageType": "u", "pathOrInlineDv": "x", "cardinality": hidden} if hidden else None,
        }
        for number, (_, size, hidden) in enumerate(files)
    ]
    table = pa.Table.from_pylist(rows, FILE_SCHEMA)
    partitions = np.array([partition for partition, _, _ in files], np.int64)
    assert [rows.tolist() for rows in compaction_bins(table, partitions, TARGET)] == bins_by_definition(files)
