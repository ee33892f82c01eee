"""``lakehouse vacuum``: delete files that tables no longer need."""

from __future__ import annotations

import uuid
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import VACUUM
from lakehouse_lib.cli.command import Command, Report, add_exit_code, add_run
from lakehouse_lib.cli.progress import progress
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.cli.tables import add_tables, on_tables, registry_of
from lakehouse_lib.command_options import add_parameter

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.deleted_files import DeletedFilesRecord
    from lakehouse_lib.fleet.table_run import MaintainedTable

#: The parameters that are options of the command. ``--run`` replaces ``dry_run``.
_PARAMETERS = [parameter for parameter in VACUUM.parameters if parameter.name not in ("table", "dry_run")]


def configure(parser: ArgumentParser) -> None:
    add_tables(parser)
    for parameter in _PARAMETERS:
        add_parameter(parser, parameter)
    parser.set_defaults(full=None)  # the policy of the registry decides
    add_run(parser, "delete the files")
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Vacuum each table. If the registry has ``records``, the deleted files are recorded."""
    record, vacuum_run = _record_of(arguments), uuid.uuid4().hex

    def work(table: MaintainedTable) -> dict[str, Any]:
        from lakehouse_lib.snapshot import load_snapshot

        values = {parameter.name: getattr(arguments, parameter.name) for parameter in _PARAMETERS}
        policy = table.policy
        own = {
            "retention_hours": policy.retention_hours,
            "full": policy.full_vacuum or values["inventory"] is not None,
            "files_per_second": policy.files_per_second,
        }
        values |= {name: value for name, value in own.items() if values[name] is None}
        values["enforce_retention_duration"] &= policy.enforce_retention
        values["on_progress"] = bar.observer(table.name) if arguments.run else None
        values["before_deletion"] = None if record is None else record.writer(table.name, vacuum_run)
        result: dict[str, Any] = VACUUM.run(load_snapshot(table.store), dry_run=not arguments.run, **values).to_dict()
        return result

    with progress("tables") as bar:
        tables = on_tables(arguments, work, changes=arguments.run, bar=bar)

    def show(terminal: Terminal) -> None:
        from lakehouse_lib.cli.terminal import size_text

        for name, result in tables.successes:
            metrics = result["metrics"]  # the metrics count all files; ``files`` lists only the first files
            files = metrics["numDeletedFiles" if arguments.run else "numFilesToDelete"]
            size = size_text(metrics["sizeOfDataToDelete"])
            verb = "deleted" if arguments.run else "would delete"
            terminal.line(f"{name}: {verb} {files:,} files with {size}")
            terminal.lines(result["files"])
        if not arguments.run and tables.successes:
            terminal.line("Nothing was deleted; --run deletes the files.")

    has_work = not arguments.run and any(result["files"] for _, result in tables.successes)
    return Report(tables.document("vacuum", dry_run=not arguments.run), show, tables.errors, has_work)


def _record_of(arguments: Namespace) -> DeletedFilesRecord | None:
    from lakehouse_lib.fleet.deleted_files import DeletedFilesRecord

    registry = registry_of(arguments)
    if registry is None or registry.records is None:
        return None
    return DeletedFilesRecord(registry.records, options_for(registry.records, arguments.storage_options))


COMMANDS = (Command("vacuum", VACUUM.description, configure, run),)
