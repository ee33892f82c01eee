"""The catalogue of table properties: valid texts and their values."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import write_deltalake
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.protocol import table_properties
from lakehouse_lib.protocol.table_properties import (
    CHECKPOINT_INTERVAL,
    COMPRESSION_CODECS,
    DELETED_FILE_RETENTION,
    PROPERTIES,
    STATS_COLUMNS,
    TARGET_FILE_SIZE,
    TableProperty,
    target_file_size,
)


@pytest.mark.parametrize(
    ("entry", "text", "value"),
    [
        (DELETED_FILE_RETENTION, "interval 1 week", timedelta(weeks=1)),
        (DELETED_FILE_RETENTION, "INTERVAL 2 DAYS 3 hours", timedelta(days=2, hours=3)),
        (DELETED_FILE_RETENTION, "168 hours", timedelta(days=7)),
        (DELETED_FILE_RETENTION, "interval 0 hours", timedelta(0)),
        (DELETED_FILE_RETENTION, "interval 1000000 days", timedelta(days=10**6)),
        (CHECKPOINT_INTERVAL, " 5 ", 5),
        (TARGET_FILE_SIZE, "104857600", 100 << 20),
        (TARGET_FILE_SIZE, "100mb", 100 << 20),
        (TARGET_FILE_SIZE, "1G", 1 << 30),
        (TARGET_FILE_SIZE, "64 kb", 65536),
        (STATS_COLUMNS, "a, b.c,`d,``e`.f", (("a",), ("b", "c"), ("d,`e", "f"))),
    ],
)
def test_property_texts_are_parsed(entry: TableProperty[Any], text: str, value: object) -> None:
    assert entry.of({entry.key: text}) == value


@pytest.mark.parametrize(
    ("entry", "texts"),
    [
        (DELETED_FILE_RETENTION, ["", "interval", "1 month", "7", "interval -1 day", "1 day and more", "P7D"]),
        (DELETED_FILE_RETENTION, ["7\u00a0days", "7 days\u00a0", "\u0667 days", "1 day2 hours"]),
        (DELETED_FILE_RETENTION, ["interval 99999999999999 weeks", f"interval {'9' * 5000} days"]),
        (CHECKPOINT_INTERVAL, ["0", "-1", "ten", "", "²", "1_0", "2147483648", "9" * 5000]),
        (TARGET_FILE_SIZE, ["", "big", "0", "-1", "1tb", "mb"]),
        (STATS_COLUMNS, ["a..b", "`a", "a,,b", "a.", "a, b."]),
    ],
)
def test_property_texts_that_are_not_valid(entry: TableProperty[Any], texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(InvalidArgumentError) as refused:
            entry.of({entry.key: text}, "t")
        assert refused.value.code == "DELTA_INVALID_TABLE_PROPERTY"
        assert refused.value.table == "t"
        assert refused.value.message.startswith(f"{entry.key} = ")
        assert refused.value.message.endswith(f"is not valid; expected {entry.expected}")


def test_the_size_that_a_caller_asks_for_comes_first() -> None:
    assert target_file_size({TARGET_FILE_SIZE.key: "100mb"}, 5) == 5
    with pytest.raises(InvalidArgumentError, match="is not valid; expected a positive number of bytes"):
        target_file_size({TARGET_FILE_SIZE.key: "100mb"}, 0)


def test_the_catalogue_has_every_property_of_the_module_by_its_key() -> None:
    named = [value for value in vars(table_properties).values() if isinstance(value, TableProperty)]
    assert {entry.key: entry for entry in named}.items() <= PROPERTIES.items()
    assert len({key.lower() for key in PROPERTIES}) == len(PROPERTIES)


@pytest.mark.parametrize("codec", COMPRESSION_CODECS)
def test_files_have_the_codec_that_is_asked_for(tmp_path: Path, codec: str) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1, 2]}), configuration={"delta.parquet.compression.codec": codec.upper()})
    (file,) = tmp_path.glob("*.parquet")
    shown_as = {"none": "UNCOMPRESSED", "lz4_raw": "LZ4"}.get(codec, codec.upper())
    assert pq.read_metadata(file).row_group(0).column(0).compression == shown_as
    assert deltalake.DeltaTable(tmp_path).to_pyarrow_table()["a"].to_pylist() == [1, 2]
