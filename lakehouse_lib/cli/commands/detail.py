"""``lakehouse detail``: the properties, the protocol and the size of a table."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.cli.command import Command, Report
from lakehouse_lib.cli.tables import add_tables, on_tables

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.table_run import MaintainedTable


def run(arguments: Namespace) -> Report:
    """Describe each table, as delta-spark's DESCRIBE DETAIL."""
    tables = on_tables(arguments, _detail)

    def show(terminal: Terminal) -> None:
        from lakehouse_lib.cli.terminal import Size

        for number, (_, fields) in enumerate(tables.successes):
            if number:
                terminal.line()
            terminal.pairs({**fields, "sizeInBytes": Size(fields["sizeInBytes"])})

    return Report(tables.document("detail"), show, tables.errors)


def _detail(table: MaintainedTable) -> dict[str, Any]:
    from lakehouse_lib.operations.inspect.detail import detail
    from lakehouse_lib.snapshot import load_snapshot

    fields = detail(load_snapshot(table.store))
    times = {name: fields[name].isoformat(timespec="seconds") for name in ("createdAt", "lastModified") if fields[name]}
    return {**fields, **times}


COMMANDS = (Command("detail", "Show the properties, the protocol and the size of tables.", add_tables, run),)
