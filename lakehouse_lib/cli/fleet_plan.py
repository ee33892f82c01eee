"""The fleet, the budget and the plan of ``lakehouse plan`` and ``lakehouse maintain``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import COMPACT, VACUUM, Parameter
from lakehouse_lib.cli.command import Report, UsageError
from lakehouse_lib.cli.steps import show_steps
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.cli.tables import add_tables, error_values, tables_of, with_policy
from lakehouse_lib.command_options import add_optional, add_parameter

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.planner.budget import Budget
    from lakehouse_lib.fleet.runs import RunRecord
    from lakehouse_lib.fleet.table_run import MaintainedTable

_PARAMETERS = (
    Parameter("verbs", "names", "plan only these verbs, such as optimize,vacuum"),
    Parameter("cluster_by", "names", "the columns to Z-order by; without columns small files are merged"),
    Parameter("budget_bytes", "bytes", "the most bytes that the run reads and writes, such as 50gb"),
    Parameter("budget_seconds", "seconds", "the longest predicted duration of the run"),
    Parameter("records", "location", "the folder of the record of runs, by which predictions are corrected"),
)


def add_fleet(parser: ArgumentParser) -> None:
    """Add the arguments of a maintenance run."""
    add_tables(parser)
    for parameter in _PARAMETERS:
        add_parameter(parser, parameter)
    add_optional(parser, COMPACT, "target_file_size")
    add_optional(parser, VACUUM, "retention_hours")


def fleet_of(arguments: Namespace) -> list[MaintainedTable]:
    """The tables of the command line, with the given values instead of those of their policies."""
    values: dict[str, Any] = {
        name: getattr(arguments, name) for name in ("verbs", "cluster_by", "target_file_size", "retention_hours")
    }
    if values["verbs"] is not None:
        _check_verbs(values["verbs"])
    return [with_policy(table, **values) for table in tables_of(arguments)]


def budget_of(arguments: Namespace) -> Budget:
    """The budget of the command line."""
    from lakehouse_lib.fleet.planner.budget import Budget

    return Budget(arguments.budget_bytes, arguments.budget_seconds)


def record_of(arguments: Namespace) -> RunRecord | None:
    """The record of runs; None: the command line names none."""
    if arguments.records is None:
        return None
    from lakehouse_lib.fleet.runs import RunRecord

    return RunRecord(arguments.records, options_for(arguments.records, arguments.storage_options))


def plan_report(command: str, arguments: Namespace) -> Report:
    """Plan a maintenance run, and report the plan."""
    from lakehouse_lib.fleet.maintenance import plan_fleet

    fleet = plan_fleet(fleet_of(arguments), budget_of(arguments), record_of(arguments))
    plan = fleet.to_dict()
    errors = {name: error_values(error) for name, error in fleet.errors.items()}

    def show(terminal: Terminal) -> None:
        _show(terminal, plan)

    document = {"command": command, "dry_run": True, **plan, "errors": errors}
    return Report(document, show, list(fleet.errors.items()), has_work=bool(plan["steps"] or plan["deferred"]))


def _show(terminal: Terminal, plan: dict[str, Any]) -> None:
    if not plan["steps"] and not plan["deferred"]:
        terminal.line("Nothing is due.")
        return
    show_steps(terminal, plan["steps"])
    if plan["deferred"]:
        terminal.line()
        terminal.line("Beyond the budget, and left for a later run:")
        show_steps(terminal, plan["deferred"])
    terminal.line()
    terminal.line("Nothing was changed. `lakehouse maintain --run` runs the plan.")


def _check_verbs(verbs: tuple[str, ...]) -> None:
    from lakehouse_lib.fleet.planner.verbs import VERBS

    unknown = [verb for verb in verbs if verb not in VERBS]
    if unknown:
        raise UsageError(f"--verbs has {', '.join(unknown)}; expected some of {', '.join(VERBS)}")
