"""Writer properties that are refused before a file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import lakehouse_lib
from lakehouse_lib import (
    ColumnProperties,
    WriterProperties,
    write_deltalake,
)
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError
from tests.peers import parquet_files

ROWS = pa.table({"id": [1], "point": [{"x": 1, "label": "a"}]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"column_properties": {"nope": ColumnProperties()}}, "column_properties has 'nope'; expected columns"),
        (
            {"column_properties": {"point": ColumnProperties(encoding="DELTA_BYTE_ARRAY")}},
            "the encoding of 'point.x' is DELTA_BYTE_ARRAY, which cannot store int64",
        ),
        (
            {"default_column_properties": ColumnProperties(encoding="RLE")},
            "the encoding of 'id' is RLE, which cannot store int64",
        ),
    ],
)
def test_properties_that_do_not_fit_the_table_are_refused_before_a_write(
    tmp_path: Path, engine: Engine, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message) as refused:
        write_deltalake(tmp_path / "t", ROWS, writer_properties=WriterProperties(**arguments), engine=engine)
    assert refused.value.code == "DELTA_INVALID_WRITER_PROPERTIES"
    assert not parquet_files(tmp_path)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("WriterProperties", {"compression": "LZO"}),
        ("WriterProperties", {"compression_level": 3}),
        ("WriterProperties", {"compression": "ZSTD", "compression_level": 23}),
        ("WriterProperties", {"compression": "ZSTD", "compression_level": 0}),
        ("WriterProperties", {"compression": "BROTLI", "compression_level": 12}),
        ("BloomFilterProperties", {"set_bloom_filter_enabled": True, "fpp": 1.0}),
        ("BloomFilterProperties", {"set_bloom_filter_enabled": True, "fpp": 0}),
        ("ColumnProperties", {"dictionary_enabled": True, "encoding": "PLAIN"}),
    ],
)
def test_values_that_delta_rs_refuses_are_refused(name: str, arguments: dict[str, Any]) -> None:
    for package in (lakehouse_lib, deltalake):
        with pytest.raises(ValueError):
            getattr(package, name)(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_row_group_size": 0},
        {"data_page_size_limit": -1},
        {"write_batch_size": "9"},
        {"statistics_truncate_length": True},
        {"column_properties": {"id": deltalake.ColumnProperties()}},
        {"default_column_properties": {"encoding": "PLAIN"}},
        {"column_properties": [ColumnProperties()]},
    ],
)
def test_values_of_other_types_are_refused_before_a_write(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="expected") as refused:
        WriterProperties(**arguments)
    assert refused.value.code == "DELTA_INVALID_WRITER_PROPERTIES"


def test_properties_of_the_deltalake_package_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"deltalake.*expected lakehouse_lib\.WriterProperties"):
        write_deltalake(tmp_path / "t", ROWS, writer_properties=deltalake.WriterProperties())
    assert not (tmp_path / "t").exists()
