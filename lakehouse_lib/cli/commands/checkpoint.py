"""``lakehouse checkpoint``: write checkpoints."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import CHECKPOINT
from lakehouse_lib.cli.command import Command, Report, add_exit_code, add_run
from lakehouse_lib.cli.tables import add_tables, on_tables

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.table_run import MaintainedTable


def configure(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_run(parser, "write the checkpoints")
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Write a checkpoint of the latest version of each table, if it has none."""

    def work(table: MaintainedTable) -> dict[str, Any]:
        from lakehouse_lib.snapshot import load_snapshot

        snapshot = load_snapshot(table.store)
        snapshot.check_writable()
        since = snapshot.checkpoint_version
        commits = snapshot.version - (-1 if since is None else since)
        if arguments.run and commits:
            CHECKPOINT.run(snapshot)
        return {
            "version": snapshot.version,
            "earlier_checkpoint_version": since,
            "commits_since_checkpoint": commits,
        }

    tables = on_tables(arguments, work, changes=arguments.run)

    def show(terminal: Terminal) -> None:
        for name, result in tables.good:
            version, commits = result["version"], result["commits_since_checkpoint"]
            verb = "wrote" if arguments.run else "would write"
            terminal.line(
                f"{name}: {verb} a checkpoint of version {version}; readers replayed {commits:,} commits"
                if commits
                else f"{name}: version {version} has a checkpoint"
            )
        if not arguments.run and tables.good:
            terminal.line("Nothing was written; --run writes the checkpoints.")

    has_work = not arguments.run and any(result["commits_since_checkpoint"] for _, result in tables.good)
    return Report(tables.document("checkpoint", dry_run=not arguments.run), show, tables.errors, has_work)


COMMANDS = (Command("checkpoint", CHECKPOINT.description, configure, run),)
