"""Choose the customer to erase, and count the customer's rows on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from demo.faults import Faults, parse
from demo.lakehouse import quarantine_of

# The column with the customer's id, by table; line items have the id of their order.
_BY_CUSTOMER = {"customer": "c_custkey", "orders": "o_custkey"}
_BY_ORDER = {"lineitem": "l_orderkey"}


@dataclass(frozen=True)
class Person:
    """A customer's id, and the keys of all the customer's orders in the raw data."""

    customer: int
    orders: tuple[int, ...]


def choose(raw: Path, faults: Faults) -> Person:
    """The customer with the most orders, among those with a line item in quarantine and readable keys in all rows.

    So every table, and also a quarantine, has rows to erase.
    """
    items = [row for row in faults.rows if row.table == "lineitem"]
    readable = [row.key[0] for row in items if row.column is not None]
    # The line items of an order in quarantine cannot be matched to a customer. A record without columns has no key.
    out_of_reach = [key[0] for key in faults.missing_keys("orders")] + [
        row.key[0] for row in items if row.column is None
    ]
    with duckdb.connect() as connection:
        customer = connection.execute(
            f"""
            select o_custkey
            from read_csv('{raw / "orders.csv"}')
            group by o_custkey
            having bool_or(o_orderkey in (select unnest($1))) and not bool_or(o_orderkey in (select unnest($2)))
            order by count(*) desc, o_custkey
            limit 1
            """,  # noqa: S608 - a path of our own
            [readable, out_of_reach],
        ).fetchone()
        if customer is None:
            raise ValueError("no customer has a line item among the faults; choose another seed of the injector")
        orders = connection.execute(
            f"select o_orderkey from read_csv('{raw / 'orders.csv'}') where o_custkey = $1 order by 1",  # noqa: S608
            [customer[0]],
        ).fetchall()
    return Person(customer[0], tuple(key for (key,) in orders))


def rows_on_disk(tables: Path, person: Person) -> dict[str, tuple[int, int]]:
    """By folder of a table or quarantine, the person's rows in its Parquet files, and the number of files with them.

    pyarrow reads the files, without the log: files that no version lists count, too.
    """
    keys_by_table = {
        **{table: (column, {person.customer}) for table, column in _BY_CUSTOMER.items()},
        **{table: (column, set(person.orders)) for table, column in _BY_ORDER.items()},
    }
    rows = {}
    for table, (column, keys) in keys_by_table.items():
        for name in (table, quarantine_of(table)):
            if (tables / name).exists():
                counts = [_count(path, column, keys) for path in data_files(tables / name)]
                rows[name] = (sum(counts), sum(count > 0 for count in counts))
    return rows


def unattributed(tables: Path, person: Person) -> dict[str, tuple[int, int]]:
    """By quarantine, the records that could not be split into columns, and those of them that mention the person.

    A record mentions the person if one of its fields is the key of the customer or of an order.
    """
    keys = {str(key) for key in (person.customer, *person.orders)}
    records_by_table = {}
    for table in (*_BY_CUSTOMER, *_BY_ORDER):
        name = quarantine_of(table)
        if (tables / name).exists():
            column = deltalake.DeltaTable(str(tables / name)).to_pyarrow_table(columns=["_raw"])["_raw"]
            records = [parse(text.encode()) for text in column.drop_null().to_pylist()]
            if records:
                records_by_table[name] = (len(records), sum(not keys.isdisjoint(record) for record in records))
    return records_by_table


def data_files(table: Path) -> list[Path]:
    """All Parquet files below a table's folder, except those of the log."""
    return sorted(path for path in table.rglob("*.parquet") if "_delta_log" not in path.relative_to(table).parts)


def _count(path: Path, column: str, keys: set[int]) -> int:
    with pq.ParquetFile(path) as file:
        if column not in file.schema_arrow.names:
            return 0
        count = 0
        for batch in file.iter_batches(columns=[column]):
            # A quarantine has values as text. A text that is not a number cannot be a person's key.
            text = batch.column(0).cast("string")
            count += int(np.count_nonzero(pc.is_in(text, value_set=_texts(keys)).to_numpy(zero_copy_only=False)))
        return count


def _texts(keys: set[int]) -> pa.Array:
    return pa.array([str(key) for key in sorted(keys)], pa.string())
