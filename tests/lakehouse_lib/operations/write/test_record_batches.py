"""Writes of a list of record batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import InvalidArgumentError


def test_batches_get_their_common_types(tmp_path: Path) -> None:
    required = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    batches = [pa.record_batch({"a": pa.array(values, kind)}) for values, kind in (([1], pa.int32()), ([None], None))]
    write_deltalake(tmp_path, [pa.record_batch([[7]], schema=required), *batches])
    assert DeltaTable(tmp_path).to_pyarrow_table()["a"].to_pylist() == [7, 1, None]


def test_batches_with_other_columns_than_the_first_are_refused(tmp_path: Path) -> None:
    batches = [pa.record_batch({"a": [1], "b": [2]}), pa.record_batch({"b": [2], "a": [1]})]
    with pytest.raises(
        InvalidArgumentError, match=r"record batch 1 has the columns \['b', 'a'\]; expected .* \['a', 'b'\]"
    ):
        write_deltalake(tmp_path, batches)
    assert not DeltaTable.is_deltatable(tmp_path)
