"""The fleet, the budget and the plan of ``lakehouse plan`` and ``lakehouse maintain``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import COMPACT, VACUUM
from lakehouse_lib.catalogue.operation import Parameter
from lakehouse_lib.cli.command import Report, UsageError
from lakehouse_lib.cli.steps import show_steps
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.cli.tables import add_tables, error_values, registry_of, tables_of, with_policy
from lakehouse_lib.command_options import add_optional, add_parameter
from lakehouse_lib.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.planner.budget import Budget
    from lakehouse_lib.fleet.runs import RunRecord
    from lakehouse_lib.fleet.table_run import MaintainedTable

RECORDS = Parameter("records", "location", "the folder of the records; default: the records folder of the registry")
_PARAMETERS = (
    Parameter("verbs", "names", "plan only these verbs, such as optimize,vacuum"),
    Parameter(
        "cluster_by",
        "names",
        "the columns to Z-order by; default: the table's clustering columns; without these, small files are merged",
    ),
    Parameter("budget_bytes", "bytes", "the largest number of bytes that the run reads and writes, such as 50gb"),
    Parameter("budget_seconds", "seconds", "the longest predicted duration of the run"),
    RECORDS,
)


def add_fleet(parser: ArgumentParser) -> None:
    """Add the arguments of a maintenance run."""
    add_tables(parser)
    for parameter in _PARAMETERS:
        add_parameter(parser, parameter)
    add_optional(parser, COMPACT, "target_file_size")
    for name in ("retention_hours", "full", "files_per_second"):
        add_optional(parser, VACUUM, name)
    parser.set_defaults(full=None)  # the policy of the registry decides


@dataclass(frozen=True)
class MaintenanceWork:
    """The tables, the budget and the record of a maintenance run.

    Attributes:
        record: the record of runs; None: the run is not recorded.
    """

    tables: list[MaintainedTable]
    budget: Budget
    record: RunRecord | None


def maintenance_of(arguments: Namespace, *, in_window: bool) -> MaintenanceWork:
    """The tables, the budget and the record. Options of the command line override the registry.

    Args:
        in_window: whether the run must be in the maintenance window of the registry. Then the rest of the window also
            limits the time of the run.

    Raises:
        InvalidArgumentError: the window is closed, and the command line has no ``--budget-seconds``.
        UsageError: ``--verbs`` has an unknown verb, or the command line names no table.
    """
    from lakehouse_lib.fleet.planner.budget import Budget
    from lakehouse_lib.fleet.runs import RunRecord

    registry = registry_of(arguments)
    most_bytes, seconds, records = arguments.budget_bytes, arguments.budget_seconds, arguments.records
    if registry is not None:
        settings = registry.budget
        limits = settings.limits(_now()) if in_window and seconds is None else (settings.bytes, settings.seconds)
        if limits[1] == 0:
            raise InvalidArgumentError(
                "the maintenance window of the registry is closed",
                hint="Run the command in the window, or give --budget-seconds",
                code="DELTA_MAINTENANCE_WINDOW_CLOSED",
            )
        most_bytes = limits[0] if most_bytes is None else most_bytes
        seconds = limits[1] if seconds is None else seconds
        records = registry.records if records is None else records
    values: dict[str, Any] = {
        name: getattr(arguments, name)
        for name in ("verbs", "cluster_by", "target_file_size", "retention_hours", "files_per_second")
    }
    values["full_vacuum"] = arguments.full
    if values["verbs"] is not None:
        _check_verbs(values["verbs"])
    return MaintenanceWork(
        [with_policy(table, **values) for table in tables_of(arguments, registry)],
        Budget(most_bytes, seconds),
        None if records is None else RunRecord(records, options_for(records, arguments.storage_options)),
    )


def plan_report(command: str, arguments: Namespace) -> Report:
    """Plan a maintenance run, and report the plan."""
    from lakehouse_lib.fleet.maintenance import plan_fleet

    work = maintenance_of(arguments, in_window=False)
    fleet = plan_fleet(work.tables, work.budget, work.record)
    plan = fleet.to_dict()
    errors = {name: error_values(error) for name, error in fleet.errors.items()}

    def show(terminal: Terminal) -> None:
        _show(terminal, plan)

    document = {"command": command, "dry_run": True, **plan, "errors": errors}
    return Report(document, show, list(fleet.errors.items()), has_work=bool(plan["steps"] or plan["deferred"]))


def _show(terminal: Terminal, plan: dict[str, Any]) -> None:
    codes = {table: error["code"] for table, error in plan["errors"].items()}
    if not plan["steps"] and not plan["deferred"] and not codes:
        terminal.line("Nothing is due.")
        return
    show_steps(terminal, plan["steps"], codes)
    if plan["deferred"]:
        terminal.line()
        terminal.line("Deferred to a later run by the budget:")
        show_steps(terminal, plan["deferred"])
    terminal.line()
    terminal.line("Nothing was changed. `lakehouse maintain --run` runs the plan.")


def _check_verbs(verbs: tuple[str, ...]) -> None:
    from lakehouse_lib.fleet.planner.verbs import VERBS

    unknown = [verb for verb in verbs if verb not in VERBS]
    if unknown:
        raise UsageError(f"--verbs has {', '.join(unknown)}; expected some of {', '.join(VERBS)}")


def _now() -> datetime:
    from lakehouse_lib.log import clock

    return datetime.fromtimestamp(clock.now() / 1000, UTC)
