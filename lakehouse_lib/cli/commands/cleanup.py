"""``lakehouse cleanup``: delete expired files of the logs of tables."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import CLEANUP
from lakehouse_lib.cli.command import Command, Report, add_exit_code, add_run
from lakehouse_lib.cli.tables import add_tables, on_tables
from lakehouse_lib.command_options import add_optional

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.table_run import MaintainedTable


def configure(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_optional(parser, CLEANUP, "enforce_retention_duration")
    add_run(parser, "delete the files")
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Delete the expired files of each table's log."""

    def work(table: MaintainedTable) -> dict[str, Any]:
        from lakehouse_lib.snapshot import load_snapshot

        result = CLEANUP.run(
            load_snapshot(table.store),
            dry_run=not arguments.run,
            enforce_retention_duration=arguments.enforce_retention_duration,
        )
        values: dict[str, Any] = result.to_dict()
        return values

    tables = on_tables(arguments, work, changes=arguments.run)

    def show(terminal: Terminal) -> None:
        for name, result in tables.good:
            verb = "deleted" if arguments.run else "would delete"
            terminal.line(f"{name}: {verb} {len(result['files']):,} files of the log")
            terminal.lines(result["files"])
        if not arguments.run and tables.good:
            terminal.line("Nothing was deleted; --run deletes the files.")

    has_work = not arguments.run and any(result["files"] for _, result in tables.good)
    return Report(tables.document("cleanup", dry_run=not arguments.run), show, tables.errors, has_work)


COMMANDS = (Command("cleanup", CLEANUP.description, configure, run),)
