"""``lakehouse checkpoint`` and ``lakehouse cleanup``: write checkpoints, and delete expired files of the log."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import CHECKPOINT, CLEANUP
from lakehouse_lib.cli.command import Command, Report, add_exit_code, add_run
from lakehouse_lib.cli.tables import add_tables, on_tables
from lakehouse_lib.command_options import add_optional

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.table_run import MaintainedTable


def configure_checkpoint(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_run(parser, "write the checkpoints")
    add_exit_code(parser)


def checkpoint(arguments: Namespace) -> Report:
    """Write a checkpoint of each latest version that has none. Without ``--run``, only report these versions."""

    def work(table: MaintainedTable) -> dict[str, Any]:
        from lakehouse_lib.snapshot import load_snapshot

        snapshot = load_snapshot(table.store)
        snapshot.check_writable()
        checkpoint_version = snapshot.checkpoint_version
        commit_count = snapshot.version - (-1 if checkpoint_version is None else checkpoint_version)
        if arguments.run and commit_count:
            CHECKPOINT.run(snapshot)
        return {
            "version": snapshot.version,
            "earlier_checkpoint_version": checkpoint_version,
            "commits_since_checkpoint": commit_count,
        }

    tables = on_tables(arguments, work, changes=arguments.run)

    def show(terminal: Terminal) -> None:
        for name, result in tables.successes:
            version, commit_count = result["version"], result["commits_since_checkpoint"]
            verb, replay = ("wrote", "replayed") if arguments.run else ("would write", "replay")
            terminal.line(
                f"{name}: {verb} a checkpoint of version {version}; readers {replay} {commit_count:,} commits"
                if commit_count
                else f"{name}: version {version} has a checkpoint"
            )
        if not arguments.run and tables.successes:
            terminal.line("Nothing was written; --run writes the checkpoints.")

    has_work = not arguments.run and any(result["commits_since_checkpoint"] for _, result in tables.successes)
    return Report(tables.document("checkpoint", dry_run=not arguments.run), show, tables.errors, has_work)


def configure_cleanup(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_optional(parser, CLEANUP, "enforce_retention_duration")
    add_run(parser, "delete the files")
    add_exit_code(parser)


def cleanup(arguments: Namespace) -> Report:
    """Delete the expired files of each table's log. Without ``--run``, only list them."""

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
        for name, result in tables.successes:
            verb = "deleted" if arguments.run else "would delete"
            terminal.line(f"{name}: {verb} {len(result['files']):,} files of the log")
            terminal.lines(result["files"])
        if not arguments.run and tables.successes:
            terminal.line("Nothing was deleted; --run deletes the files.")

    has_work = not arguments.run and any(result["files"] for _, result in tables.successes)
    return Report(tables.document("cleanup", dry_run=not arguments.run), show, tables.errors, has_work)


COMMANDS = (
    Command("checkpoint", CHECKPOINT.description, configure_checkpoint, checkpoint),
    Command("cleanup", CLEANUP.description, configure_cleanup, cleanup),
)
