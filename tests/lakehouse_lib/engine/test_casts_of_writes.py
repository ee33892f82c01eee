"""Numbers of other types than those of the table are cast, or refused if they do not fit, on both engines."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import SchemaMismatchError

D = pa.decimal128
FITS: list[tuple[Any, pa.DataType, pa.DataType]] = [
    (2**31 - 1, pa.int64(), pa.int32()),
    (-128, pa.int32(), pa.int8()),
    (7, pa.int64(), D(5, 2)),
    (Decimal("7.50"), D(10, 2), D(3, 1)),
    (Decimal(7), D(38, 0), pa.int64()),
    (2**53, pa.int64(), pa.float64()),
    (Decimal("0.10"), D(10, 2), pa.float64()),
    (7.0, pa.float64(), pa.int32()),
    (7.0, pa.float32(), pa.int64()),
    (0.1, pa.float64(), pa.float32()),
    (float("inf"), pa.float64(), pa.float32()),
]
DOES_NOT_FIT: list[tuple[Any, pa.DataType, pa.DataType]] = [
    (2**31, pa.int64(), pa.int32()),
    (-129, pa.int32(), pa.int8()),
    (1000, pa.int64(), D(5, 2)),
    (Decimal("7.55"), D(10, 2), D(9, 1)),
    (Decimal("700.00"), D(10, 2), D(4, 2)),
    (Decimal("7.5"), D(10, 1), pa.int64()),
    (Decimal(2**63), D(38, 0), pa.int64()),
    (2**53 + 1, pa.int64(), pa.float64()),
    (2**63 - 1, pa.int64(), pa.float64()),
    (2**24 + 1, pa.int32(), pa.float32()),
    (7.5, pa.float64(), pa.int32()),
    (float("nan"), pa.float64(), pa.int64()),
    (1e300, pa.float64(), pa.float32()),
]


def rows(value: Any, kind: pa.DataType, nested: bool) -> pa.Table:
    array = pa.array([value, None], kind)
    if nested:
        array = pa.array([[{"n": each}] for each in array.to_pylist()], pa.list_(pa.struct([("n", kind)])))
    return pa.table({"id": [1, 2], "v": array})


def write(path: Path, data: pa.Table, engine: Engine) -> None:
    """As a DataFrame on Spark: Arrow data is cast before Spark gets it."""
    if isinstance(engine, SparkEngine):
        write_deltalake(path, engine.spark.createDataFrame(data), mode="append", engine=engine)
    else:
        write_deltalake(path, data, mode="append", engine=engine)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("value", "kind", "column"), FITS, ids=str)
def test_numbers_that_fit(
    tmp_path: Path, engine: Engine, value: Any, kind: pa.DataType, column: pa.DataType, nested: bool
) -> None:
    deltalake.write_deltalake(tmp_path, rows(None, column, nested))
    write(tmp_path, rows(value, kind, nested), engine)
    stored = pa.scalar(value, kind).cast(pa.float64() if pa.types.is_floating(kind) else D(38, 2)).cast(column).as_py()
    written = deltalake.DeltaTable(tmp_path).to_pyarrow_table()
    expected = pa.concat_tables([rows(None, column, nested), rows(stored, column, nested)])
    assert sorted(map(str, written.to_pylist())) == sorted(map(str, expected.to_pylist()))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("value", "kind", "column"), DOES_NOT_FIT, ids=str)
def test_numbers_that_do_not_fit(
    tmp_path: Path, engine: Engine, value: Any, kind: pa.DataType, column: pa.DataType, nested: bool
) -> None:
    deltalake.write_deltalake(tmp_path, rows(None, column, nested))
    with pytest.raises(SchemaMismatchError, match=r"v.* has a value of .* that does not fit"):
        write(tmp_path, rows(value, kind, nested), engine)
    assert DeltaTable(tmp_path).version() == 0
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
