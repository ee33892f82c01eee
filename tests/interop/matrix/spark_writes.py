"""The statements with which delta-spark goes on writing to a table of the matrix, and the rows that follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def spark_write(verb: str, table: str, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    """The statement of a verb, and the rows that the table has afterwards.

    New rows are copies of rows with a new ``id``, so that they satisfy the rules of the table.

    Args:
        verb: one of ``outcomes.WRITES``.
        table: the table in SQL.
        rows: its rows, at least two with an ``id``.
    """
    low, other = sorted(row["id"] for row in rows if row["id"] is not None)[:2]
    columns = list(rows[0])
    names = ", ".join(map(quoted, columns))

    def moved(alias: str, by: int) -> str:
        return ", ".join(f"{alias}.id + {by}" if name == "id" else f"{alias}.{quoted(name)}" for name in columns)

    def with_low(by: int) -> list[Row]:
        return [{**row, "id": low + by} if row["id"] == low else row for row in rows]

    def copied(key: int, by: int) -> list[Row]:
        return [{**row, "id": key + by} for row in rows if row["id"] == key]

    if verb == "append":
        query = f"SELECT {moved('t', 1000)} FROM {table} t WHERE id = {low}"
        return f"INSERT INTO {table} ({names}) {query}", [*rows, *copied(low, 1000)]
    if verb == "delete":
        return f"DELETE FROM {table} WHERE id = {low}", [row for row in rows if row["id"] != low]
    if verb == "update":
        return f"UPDATE {table} SET id = id + 2000 WHERE id = {low}", with_low(2000)
    if verb == "merge":
        statement = (
            f"MERGE INTO {table} t USING (SELECT * FROM {table} WHERE id IN ({low}, {other})) s "
            f"ON t.id = s.id AND s.id = {low} "
            "WHEN MATCHED THEN UPDATE SET id = t.id + 3000 "
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({moved('s', 4000)})"
        )
        return statement, [*with_low(3000), *copied(other, 4000)]
    assert verb == "optimize", verb
    return f"OPTIMIZE {table}", list(rows)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
