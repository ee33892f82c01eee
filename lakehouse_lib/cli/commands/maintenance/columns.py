"""``lakehouse columns``: the columns to Z-order by, from the queries of a file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.cli.command import Command, Report
from lakehouse_lib.cli.tables import add_tables, on_tables

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.table_run import MaintainedTable


def configure(parser: ArgumentParser) -> None:
    add_tables(parser)
    parser.add_argument(
        "--queries", metavar="FILE", required=True, help="SQL statements of Spark, or an event log of Spark"
    )
    parser.add_argument(
        "--table-name", metavar="NAME", help="the table's name in SQL; default: the last part of its location"
    )


def run(arguments: Namespace) -> Report:
    """Suggest the columns to Z-order each table by."""
    from pathlib import Path

    from lakehouse_lib.errors import InvalidArgumentError

    try:
        text = Path(arguments.queries).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise InvalidArgumentError(f"the file of queries {arguments.queries} cannot be read: {error}") from None

    def uses(table: MaintainedTable) -> dict[str, Any]:
        from lakehouse_lib.fleet.query_log import column_uses, filtered_columns, suggested_columns
        from lakehouse_lib.snapshot import load_snapshot

        snapshot = load_snapshot(table.store)
        name = arguments.table_name or table.store.root.rstrip("/").rpartition("/")[2]
        queries = filtered_columns(text, name, table.store.root)
        columns = column_uses(snapshot, queries)
        return {
            "queries": len(queries),
            "columns": [{"column": use.column, "share": use.share, "reason": use.reason} for use in columns],
            "suggested": list(suggested_columns(columns)),
        }

    tables = on_tables(arguments, uses)

    def show(terminal: Terminal) -> None:
        for number, (name, result) in enumerate(tables.successes):
            if number:
                terminal.line()
            terminal.line(f"{name}: {result['queries']:,} queries")
            if result["columns"]:
                rows = [(use["column"], f"{use['share']:.0%}", use["reason"] or "yes") for use in result["columns"]]
                terminal.rows(("column", "queries", "can be Z-ordered by"), rows)
            suggested = ", ".join(result["suggested"])
            terminal.line(f"Z-order by: {suggested}" if suggested else "No column is worth a Z-order.")

    return Report(tables.document("columns"), show, tables.errors)


COMMANDS = (Command("columns", "Suggest columns to Z-order by, from the queries of a file.", configure, run),)
