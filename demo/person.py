"""The customer who asks to be forgotten, and where rows about that person lie on disk."""

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

# Which column of which table says whom a row is about; line items do so through their order.
_BY_CUSTOMER = {"customer": "c_custkey", "orders": "o_custkey"}
_BY_ORDER = {"lineitem": "l_orderkey"}


@dataclass(frozen=True)
class Person:
    """A customer's id and the keys of all orders that the raw data has of them."""

    customer: int
    orders: tuple[int, ...]


def choose(raw: Path, faults: Faults) -> Person:
    """The customer with the most orders among those with a line item in quarantine and no order out of reach.

    So the erasure has rows to find in every table and in a quarantine table.
    """
    items = [row for row in faults.rows if row.table == "lineitem"]
    readable = [row.key[0] for row in items if row.column is not None]
    # Nothing says whom an order in quarantine's line items belong to, nor a record that falls into no columns.
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
            raise ValueError("no customer has a line item among the faults; the injector's seed must be another")
        orders = connection.execute(
            f"select o_orderkey from read_csv('{raw / 'orders.csv'}') where o_custkey = $1 order by 1",  # noqa: S608
            [customer[0]],
        ).fetchall()
    return Person(customer[0], tuple(key for (key,) in orders))


def rows_on_disk(tables: Path, person: Person) -> dict[str, tuple[int, int]]:
    """Rows about the person in every Parquet file below each table's folder, quarantine too, read by pyarrow alone.

    Live or not: a file that no version lists any more, but that is still there, counts. Returns table -> (rows, files
    that hold them), for every folder that exists.
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
    """Records in quarantine that are kept as text, because they fall into no columns.

    Returns quarantine -> (records, those with the customer's or an order's key as a field), for every one that has any.
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
    """Every Parquet file below a table's folder, the transaction log's own apart."""
    return sorted(path for path in table.rglob("*.parquet") if "_delta_log" not in path.relative_to(table).parts)


def _count(path: Path, column: str, keys: set[int]) -> int:
    with pq.ParquetFile(path) as file:
        if column not in file.schema_arrow.names:
            return 0
        count = 0
        for batch in file.iter_batches(columns=[column]):
            # Quarantine keeps values as text, and text that is not a number is about no person.
            text = batch.column(0).cast("string")
            count += int(np.count_nonzero(pc.is_in(text, value_set=_texts(keys)).to_numpy(zero_copy_only=False)))
        return count


def _texts(keys: set[int]) -> pa.Array:
    return pa.array([str(key) for key in sorted(keys)], pa.string())
