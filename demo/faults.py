"""The injector: spoils rows and files in the landing folders, and records each fault.

The checks compare with this list: rows that must be in quarantine, with their reasons, and files that must be rejected.
The tables must have none of these rows.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from demo.lakehouse import COLUMNS, KEYS, RULE_COLUMNS

SEED = 20261
Row = list[str]


@dataclass(frozen=True)
class SpoiledRow:
    """A row that must be in quarantine.

    Attributes:
        line: the line in the file, from 1; the header is line 1.
        column: the faulty column; None: the whole line is faulty.
        rule: the broken quality rule; None: the row does not fit its schema.
        reason: the reason that the quarantine must give.
        key: the row's primary key before it was spoiled.
        values: the line's fields in the file.
    """

    table: str
    file: str
    line: int
    column: str | None
    rule: str | None
    reason: str
    key: tuple[int, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class SpoiledFile:
    """A file that must be rejected: its header has `instead` in place of `column`. `keys` are its rows' keys."""

    table: str
    file: str
    column: str
    instead: str
    keys: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Faults:
    rows: tuple[SpoiledRow, ...]
    files: tuple[SpoiledFile, ...]

    def missing_keys(self, table: str) -> list[tuple[int, ...]]:
        """The primary keys of all rows that must not be in the table."""
        rows = [row.key for row in self.rows if row.table == table]
        return rows + [key for file in self.files if file.table == table for key in file.keys]

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


@dataclass(frozen=True)
class _Fault:
    """A way to spoil a row, and the number of rows."""

    table: str
    times: int
    column: str | None
    rule: str | None
    reason: str
    spoil: Callable[[Row], Row]


def _set(table: str, column: str, value: str) -> Callable[[Row], Row]:
    position = list(COLUMNS[table]).index(column)
    return lambda row: [*row[:position], value, *row[position + 1 :]]


def _ill_typed(table: str, column: str, value: str, times: int) -> _Fault:
    reason = f"not a valid {COLUMNS[table][column]}"
    return _Fault(table, times, column, None, reason, _set(table, column, value))


def _breaks(table: str, rule: str, value: str, times: int, column: str | None = None) -> _Fault:
    about = RULE_COLUMNS[rule]
    return _Fault(table, times, about, rule, rule, _set(table, column or about, value))


_FAULTS = (
    _ill_typed("lineitem", "l_quantity", "a dozen", 4),
    _ill_typed("lineitem", "l_shipdate", "1996-02-30", 3),
    _ill_typed("lineitem", "l_extendedprice", "99999999999999999.00", 2),
    _Fault("lineitem", 3, None, None, "9 fields; expected 16", lambda row: row[:9]),
    _Fault("lineitem", 2, None, None, "17 fields; expected 16", lambda row: [*row, "surplus"]),
    _breaks("lineitem", "quantity_1_to_50", "-7", 5),
    _breaks("lineitem", "discount_at_most_10_percent", "0.95", 4),
    _breaks("lineitem", "known_return_flag", "X", 3),
    _breaks("lineitem", "received_after_shipped", "1991-01-01", 3, "l_receiptdate"),
    _ill_typed("orders", "o_totalprice", "n/a", 3),
    _ill_typed("orders", "o_orderdate", "yesterday", 2),
    _breaks("orders", "price_not_negative", "-1.00", 4),
    _breaks("orders", "known_status", "?", 3),
    _breaks("customer", "phone_in_tpch_form", "unknown", 2),
)
# One file has a renamed column.
_REFUSED = ("orders", "orders-17.csv", "o_totalprice", "total_price")


def inject(landing: Path, seed: int = SEED) -> Faults:
    """Spoil the files in `landing`; the same files and seed give the same faults.

    Files keep their number of lines. A row is spoiled once at most, and not in the file that is rejected.
    """
    chance = random.Random(seed)  # noqa: S311 - reproducible on purpose
    spoiled: list[SpoiledRow] = []
    for table in COLUMNS:
        files = sorted((landing / table).glob("*.csv"))
        files = [file for file in files if (table, file.name) != _REFUSED[:2]]
        lines = {file: file.read_bytes().splitlines(keepends=True) for file in files}
        places = [(file, number) for file in files for number in range(1, len(lines[file]))]
        planned = [fault for fault in _FAULTS if fault.table == table for _ in range(fault.times)]
        for fault, (file, number) in zip(planned, chance.sample(places, len(planned)), strict=True):
            row = parse(lines[file][number])
            values = fault.spoil(row)
            lines[file][number] = _format(values)
            spoiled.append(
                SpoiledRow(
                    table,
                    file.name,
                    number + 1,
                    fault.column,
                    fault.rule,
                    fault.reason,
                    key_of(table, row),
                    tuple(values),
                )
            )
        for file in files:
            file.write_bytes(b"".join(lines[file]))
    return Faults(tuple(spoiled), (_rename_column(landing),))


def parse(line: bytes) -> Row:
    """The fields of a CSV line."""
    return next(csv.reader([line.decode()]))


def key_of(table: str, row: Sequence[str]) -> tuple[int, ...]:
    columns = list(COLUMNS[table])
    return tuple(int(row[columns.index(name)]) for name in KEYS[table])


def _rename_column(landing: Path) -> SpoiledFile:
    table, name, column, instead = _REFUSED
    path = landing / table / name
    header, *rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header.replace(column.encode(), instead.encode()) + b"".join(rows))
    return SpoiledFile(table, name, column, instead, tuple(key_of(table, parse(row)) for row in rows))


def _format(row: Row) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row)
    return text.getvalue().encode()
