"""Source files like TPC-H's lineitem, with a schema and a suite of four rules that every row passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("l_orderkey", "l_partkey", "l_suppkey")),
        ("l_linenumber", pa.int32()),
        *((name, pa.decimal128(15, 2)) for name in ("l_quantity", "l_extendedprice", "l_discount", "l_tax")),
        *((name, pa.string()) for name in ("l_returnflag", "l_linestatus")),
        *((name, pa.date32()) for name in ("l_shipdate", "l_commitdate", "l_receiptdate")),
        *((name, pa.string()) for name in ("l_shipinstruct", "l_shipmode", "l_comment")),
    ]
)
#: The rules: a missing key, a number out of range, an unknown text, a text of another form.
SUITE = {
    "name": "lineitem",
    "expectations": [
        {"type": f"expect_column_values_to_{check}", "kwargs": arguments, "meta": {"rule_id": check}}
        for check, arguments in (
            ("not_be_null", {"column": "l_orderkey"}),
            ("be_between", {"column": "l_quantity", "min_value": 1, "max_value": 50}),
            ("be_in_set", {"column": "l_returnflag", "value_set": ["A", "N", "R"]}),
            ("match_regex", {"column": "l_shipmode", "regex": "^[A-Z]+$"}),
        )
    ],
}
_ROW_BYTES = 143  # of CSV, about
_ROWS = 100_000
_WORDS = ["regular", "final", "express", "slyly", "furiously", "deposits", "accounts", "requests", " packages", "even"]


def write(folder: Path, kind: str, megabytes: float, files: int) -> int:
    """Write source files that have about ``megabytes`` as CSV; returns their real size in bytes."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    rows = int(megabytes * 1e6 / _ROW_BYTES)
    for number, share in enumerate(np.array_split(np.arange(rows), files)):
        path = folder / f"{number:05}.{kind}"
        with path.open("wb") as out:
            _write(out, kind, _tables(generator, len(share)))
    return sum(path.stat().st_size for path in folder.iterdir())


def _write(out: Any, kind: str, tables: Sequence[pa.Table]) -> None:
    if kind == "parquet":
        with pq.ParquetWriter(out, SCHEMA) as writer:
            for table in tables:
                writer.write_table(table)
    elif kind == "csv":
        with csv.CSVWriter(out, SCHEMA, write_options=csv.WriteOptions(quoting_style="needed")) as writer:
            for table in tables:
                writer.write_table(table)
    else:
        for table in tables:
            out.write(_json_lines(table))


def _json_lines(table: pa.Table) -> bytes:
    members = []
    for field in SCHEMA:
        text = table[field.name].cast(pa.string())
        quote = "" if pa.types.is_integer(field.type) or pa.types.is_decimal(field.type) else '"'
        members.append(pc.binary_join_element_wise(f'"{field.name}":{quote}', text, quote, ""))
    lines = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*members, ","), "}", "")
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _tables(generator: Any, rows: int) -> list[pa.Table]:
    return [_table(generator, min(_ROWS, rows - start)) for start in range(0, rows, _ROWS)]


def _table(generator: Any, rows: int) -> pa.Table:
    def numbers(low: int, high: int) -> pa.Array:
        return pa.array(generator.integers(low, high, rows))

    def money(low: int, high: int) -> pa.Array:
        texts = numbers(low, high).cast(pa.string())
        padded = pc.utf8_lpad(texts, 3, "0")
        return pc.binary_join_element_wise(
            pc.utf8_slice_codeunits(padded, 0, -2), pc.utf8_slice_codeunits(padded, -2), "."
        ).cast(pa.decimal128(15, 2))

    def days() -> pa.Array:
        return numbers(8035, 10592).cast(pa.int32()).cast(pa.date32())

    def texts(*choices: str) -> pa.Array:
        return pa.array(choices).take(numbers(0, len(choices)))

    return pa.Table.from_arrays(
        [
            *(numbers(1, high) for high in (6_000_000, 200_000, 10_000)),
            numbers(1, 8).cast(pa.int32()),
            numbers(1, 51).cast(pa.decimal128(21, 2)).cast(pa.decimal128(15, 2)),
            money(90_000, 10_000_000),
            money(0, 11),
            money(0, 9),
            texts("N", "A", "R"),
            texts("O", "F"),
            *(days() for _ in range(3)),
            texts("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"),
            texts("AIR", "RAIL", "TRUCK", "MAIL", "SHIP"),
            pc.binary_join_element_wise(*(texts(*_WORDS) for _ in range(4)), " "),
        ],
        names=SCHEMA.names,
    ).cast(SCHEMA)
