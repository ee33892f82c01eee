"""``lakehouse history``: the commits of a table."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue.operation import Parameter
from lakehouse_lib.cli.command import Command, Report
from lakehouse_lib.cli.tables import add_tables, on_tables
from lakehouse_lib.command_options import add_parameter

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.table_run import MaintainedTable


def configure(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_parameter(parser, Parameter("limit", "count", "the newest N commits; default: 20", default=20))


def run(arguments: Namespace) -> Report:
    """The commits that are still in the log of each table, newest first."""

    def commits(table: MaintainedTable) -> dict[str, Any]:
        from lakehouse_lib.log.history import history
        from lakehouse_lib.snapshot import load_snapshot

        load_snapshot(table.store)  # refuses a location without a table
        return {"commits": history(table.store, arguments.limit)}

    tables = on_tables(arguments, commits)

    def show(terminal: Terminal) -> None:
        from lakehouse_lib.cli.terminal import time_text

        for name, result in tables.successes:
            if len(tables.results) > 1:
                terminal.line(name)
            rows = [
                (
                    str(commit["version"]),
                    time_text(commit["timestamp"]),
                    commit.get("operation"),
                    _text(commit.get("operationParameters")),
                    commit.get("engineInfo"),
                )
                for commit in result["commits"]
            ]
            terminal.rows(("version", "time", "operation", "parameters", "engine"), rows)

    return Report(tables.document("history"), show, tables.errors)


def _text(parameters: Any) -> str:
    """The parameters of an operation that have a value."""
    if not isinstance(parameters, Mapping):
        return ""
    return ", ".join(f"{name}={value}" for name, value in parameters.items() if value not in (None, "", "[]", [], "{}"))


COMMANDS = (Command("history", "List the commits of tables, newest first.", configure, run),)
