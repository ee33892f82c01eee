"""Random rows of every type, rich in the values at which implementations differ."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from lakehouse_lib.schema import Schema

UTC = dt.UTC


def decimals(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


INTEGERS = [-1, 0, 1, 2, 3, 5, 10, 100]
TEXTS = [
    "", " ", "a", "A", "b", "ab", "abc", "aa", "a1", "A-1", "12", "0", "-5", "1.5", "é", "É", "ß", "😀", "a😀b",
    "\u2028", "a\u2028",
    "a\n", "a\r\n", "a\r", "\n", "\r", "\r\n", "a\nb", "a\u0085", "\x0b", "\t", "\x00", "a b", "a.b", "x@y.org",
    "2024-02-29",
    "2023-02-29", "2024-01-01 10:00:00", "null", "{}", '{"a": 1}', "[1, 2", '"x"', "NaN", "true", "I", "i", "K",
    "\u212a", "_", "a_b", "%", "a%b", "\\",
    "]", "[", "^", "$", "a$", "-", "aaaaaaaaaaaa", "\ufeff", "\u00a0",
]  # fmt: skip
DATES = [
    dt.date.fromisoformat(text)
    for text in ["0001-01-01", "1582-10-15", "1900-01-01", "1969-12-31", "1970-01-01", "2023-12-31", "2024-01-01"]
]
DATES += [dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
TIMES = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2023, 12, 31, 23, 59, 59),
    dt.datetime(2024, 1, 1),
    dt.datetime(2024, 1, 1, 0, 0, 0, 1),
    dt.datetime(2024, 1, 1, 10),
    dt.datetime(2024, 2, 29, 12, 30, 1, 500000),
]
DOUBLES = [
    0.0, -0.0, 0.1, 0.3, 0.1 + 0.2, 1.0, 1.5, 2.0, -1.0, 5.0, 2.0**53, 1e300, -1e300, 5e-324,
    math.nan, math.inf, -math.inf,
]  # fmt: skip
FLOATS = [0.0, -0.0, 0.1, 1.0, 1.5, -1.0, 2.0**24, 3e38, math.nan, math.inf, -math.inf]

#: By column, its type and the values from which rows and literals are drawn.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [*INTEGERS, -128, 127]),
    "i16": (pa.int16(), [*INTEGERS, -(2**15), 2**15 - 1]),
    "i32": (pa.int32(), [*INTEGERS, -(2**31), 2**31 - 1, 2**24 + 1]),
    "i64": (pa.int64(), [*INTEGERS, -(2**63), 2**63 - 1, 2**53, 2**53 + 1, 2**31, 10**15 + 1]),
    "j64": (pa.int64(), [*INTEGERS, 2**53 + 1]),
    "money": (
        pa.decimal128(10, 2),
        decimals("0.00", "0.10", "0.30", "1.00", "1.50", "-1.00", "5.00", "99999999.99", "-0.01", "10.00"),
    ),
    "price": (
        pa.decimal128(15, 2),
        decimals("0.00", "0.10", "0.20", "1.00", "1.50", "5.00", "9999999999999.99", "4503599627370.50"),
    ),
    "exact": (
        pa.decimal128(38, 18),
        decimals("0", "0.1", "0.100000000000000001", "1.5", "1.500000000000000001", "1234567890123456789.1", "-1"),
    ),
    "huge": (
        pa.decimal128(38, 0),
        decimals("0", "1", "2", "-1", "99999999999999999999999999999999999999", "9007199254740993", "5"),
    ),
    "small": (pa.decimal128(5, 0), decimals("0", "1", "2", "99999", "-1", "5", "10")),
    "f32": (pa.float32(), FLOATS),
    "f64": (pa.float64(), DOUBLES),
    "g64": (pa.float64(), DOUBLES),
    "text": (pa.string(), TEXTS),
    "name": (pa.string(), TEXTS),
    "flag": (pa.bool_(), [True, False]),
    "sold": (pa.bool_(), [True, False]),
    "day": (pa.date32(), DATES),
    "end day": (pa.date32(), DATES),
    "at": (pa.timestamp("us", "UTC"), [time.replace(tzinfo=UTC) for time in TIMES]),
    "until": (pa.timestamp("us", "UTC"), [time.replace(tzinfo=UTC) for time in TIMES]),
    "clock": (pa.timestamp("us"), TIMES),
    "raw": (pa.binary(), [b"", b"a", b"\xff", b"abc"]),
    "tags": (pa.list_(pa.string()), [[], ["a"], [None]]),
    "place": (pa.struct([("city", pa.string())]), [{"city": "Bern"}, {"city": None}]),
}  # fmt: skip

NESTED = ["tags", "place"]
SCHEMA = Schema.from_arrow(pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()]))


def random_rows(random: Random, count: int) -> pa.Table:
    """Rows in the types of ``SCHEMA.to_arrow()``; a column has no, some or only nulls."""
    arrays = []
    for name, (_, values) in COLUMNS.items():
        share = random.choice([0.0, 0.1, 0.1, 0.5, 1.0])
        pool = random.sample(values, random.randint(1, len(values)))
        column = [None if random.random() < share else random.choice(pool) for _ in range(count)]
        arrays.append(pa.array(column, SCHEMA.to_arrow().field(name).type))
    return pa.Table.from_arrays(arrays, names=list(COLUMNS))
