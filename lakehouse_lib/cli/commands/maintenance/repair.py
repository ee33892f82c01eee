"""``lakehouse repair``: find damage in the logs and files of tables, and repair what can be repaired."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import REPAIR
from lakehouse_lib.catalogue.operation import Parameter
from lakehouse_lib.cli.command import Command, Report, add_exit_code, add_run
from lakehouse_lib.cli.tables import add_tables, on_tables
from lakehouse_lib.command_options import add_parameter

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.table_run import MaintainedTable


def configure(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_parameter(parser, Parameter("version", "integer", "open this version, if the latest version cannot be read"))
    add_run(parser, "repair what can be repaired")
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Find the damage of each table, and repair it with ``--run``."""

    def work(table: MaintainedTable) -> dict[str, Any]:
        from lakehouse_lib.snapshot import load_snapshot

        result = REPAIR.run(load_snapshot(table.store, arguments.version), dry_run=not arguments.run)
        return {
            "read_version": result.read_version,
            "version": result.version,
            "is_sound": result.is_sound,
            "findings": result.findings,
            "unrepaired": [kind for kind in result.findings if not arguments.run or kind not in result.REPAIRED],
        }

    tables = on_tables(arguments, work, changes=arguments.run)

    def show(terminal: Terminal) -> None:
        for name, result in tables.successes:
            if result["is_sound"]:
                terminal.line(f"{name}: no damage")
            for kind, findings in result["findings"].items():
                lines = _lines(findings)
                state = "found" if kind in result["unrepaired"] else "repaired"
                terminal.line(f"{name}: {kind}: {len(lines):,} {state}")
                terminal.lines(lines)
        if not arguments.run and any(not result["is_sound"] for _, result in tables.successes):
            terminal.line("Nothing was repaired; --run repairs what can be repaired.")

    has_work = any(result["unrepaired"] for _, result in tables.successes)
    return Report(tables.document("repair", dry_run=not arguments.run), show, tables.errors, has_work)


def _lines(findings: Any) -> list[str]:
    """The findings of a kind: a list of paths, {path: reason}, or one reason."""
    if isinstance(findings, dict):
        return [f"{path}: {reason}" for path, reason in findings.items()]
    return [findings] if isinstance(findings, str) else list(findings)


COMMANDS = (Command("repair", REPAIR.description, configure, run),)
