"""Rows that are difficult for a table: every type, nulls, and partition values with special characters."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

#: The partition columns of these tests; each has a null, an extreme value, or characters that folders escape.
PARTITION_COLUMNS = ("text", "day", "moment", "price", "whole", "flag")

TEXTS = [
    "plain",
    "a b",
    "a%20b",
    "k=v/ü",
    "é:z",
    "50%",
    "#?&+",
    "'q'\"",
    "{x}[y]^\\",
    "_hidden",
    ".dot",
    "\u6f22\u5b57",
    None,
]
DAYS = [dt.date(1970, 1, 1), dt.date(1582, 10, 15), dt.date(2024, 2, 29), dt.date(9999, 12, 31), None]
MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    dt.datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC),
    None,
]
# delta-rs 1.6.6 cannot read the folder of a negative decimal.
PRICES = [Decimal("0.00"), Decimal("0.05"), Decimal("12345678.90"), None]
WHOLES = [-(2**63), -1, 0, 2**63 - 1, None]
FLAGS = [True, False, None]

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("price", pa.decimal128(10, 2)),
        ("whole", pa.int64()),
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("small", pa.int16()),
        ("medium", pa.int32()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("nested", pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])),
    ]
)


def rows(start: int, count: int) -> pa.Table:
    """``count`` rows with ids from ``start``; the id determines every other value."""

    def row(i: int) -> dict[str, object]:
        empty = i % 7 == 0
        return {
            "id": i,
            "text": TEXTS[i % len(TEXTS)],
            "day": DAYS[i % len(DAYS)],
            "moment": MOMENTS[i % len(MOMENTS)],
            "price": PRICES[i % len(PRICES)],
            "whole": WHOLES[i % len(WHOLES)],
            "flag": FLAGS[i % len(FLAGS)],
            "tiny": None if empty else i % 256 - 128,
            "small": None if empty else i % 300 - 150,
            "medium": None if empty else i * 1_000_003 % (2**31),
            "single": None if empty else [0.5, -0.0, float("inf"), 1.5e-30][i % 4],
            "double": None if empty else [0.1, -0.0, float("-inf"), 1e300][i % 4],
            "bytes": None if empty else bytes([i % 256, 0, 255]),
            "list": None if empty else [None, i][: i % 3],
            "map": None if empty else [("k", i), ("z", None)][: i % 3],
            "nested": None if empty else {"a": i, "b": None if i % 2 else {"c": "x" * (i % 5)}},
        }

    return pa.Table.from_pylist([row(i) for i in range(start, start + count)], schema=SCHEMA)
