"""``lakehouse plan`` and ``lakehouse maintain``: a maintenance run, and its plan."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_lib.cli.command import Command, Report, add_exit_code, add_run
from lakehouse_lib.cli.engines import add_engine, engine_of
from lakehouse_lib.cli.fleet_plan import add_fleet, maintenance_of, plan_report
from lakehouse_lib.cli.progress import progress
from lakehouse_lib.errors import DeltaError

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.maintenance import FleetPlan
    from lakehouse_lib.fleet.planner.step import Step
    from lakehouse_lib.fleet.runs import StepRecord
    from lakehouse_lib.progress import OnProgress


def configure_plan(parser: ArgumentParser) -> None:
    add_fleet(parser)
    add_exit_code(parser)


def plan(arguments: Namespace) -> Report:
    """Plan a maintenance run; nothing is changed."""
    return plan_report("plan", arguments)


def configure(parser: ArgumentParser) -> None:
    add_fleet(parser)
    add_engine(parser)
    add_run(parser, "run the steps of the plan")
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Plan a maintenance run, and with ``--run`` run its steps."""
    if not arguments.run:
        return plan_report("maintain", arguments)
    from lakehouse_lib.fleet.maintenance import maintain
    from lakehouse_lib.fleet.prediction_error import prediction_error

    work = maintenance_of(arguments, in_window=True)
    with engine_of(arguments) as engine, progress("steps", in_bytes=True) as bar:

        def on_plan(fleet: FleetPlan) -> None:
            bar.expect(sum(step.cost for step in fleet.plan.steps))

        def on_step(entry: StepRecord) -> None:
            bar.advance(f"{entry.verb} of {entry.table}", entry.cost)

        def observer(step: Step) -> OnProgress | None:
            return bar.observer(f"{step.verb} of {step.table}")

        records = maintain(
            work.tables, work.budget, engine, work.record, on_plan=on_plan, on_step=on_step, observer=observer
        )
    entries = [entry.to_dict() for entry in records]
    errors = [
        (
            entry["table"],
            DeltaError(f"{entry['verb']} of {entry['table']} failed: {entry['error']}", code=entry["error_code"]),
        )
        for entry in entries
        if entry["status"] == "failed"
    ]
    error = prediction_error((entry.predicted, entry.measured) for entry in records if entry.measured is not None)
    document = {"command": "maintain", "dry_run": False, "steps": entries, "prediction_error": error}
    return Report(document, lambda terminal: _show(terminal, entries, error), errors)


def _show(terminal: Terminal, entries: Sequence[dict[str, Any]], error: Mapping[str, float | None]) -> None:
    from lakehouse_lib.cli.terminal import Size
    from lakehouse_lib.fleet.prediction_error import error_text

    if not entries:
        terminal.line("Nothing is due.")
        return
    titles = ("table", "verb", "status", "files", "new files", "read", "written", "freed", "seconds", "prediction")
    rows = []
    for entry in entries:
        effect = entry["measured"]
        numbers = (
            (None,) * 7
            if effect is None
            else (
                effect["files_removed"],
                effect["files_added"],
                Size(effect["bytes_read"]),
                Size(effect["bytes_written"]),
                Size(effect["bytes_freed"]),
                effect["seconds"],
                error_text(entry["prediction_error"]),
            )
        )
        status = entry["status"] if entry["error_code"] is None else f"{entry['status']}: {entry['error_code']}"
        rows.append((entry["table"], entry["verb"], status, *numbers))
    terminal.rows(titles, rows)
    terminal.line(f"All predictions: {error_text(error)}")


COMMANDS = (
    Command(
        "plan",
        "Plan the maintenance steps that save more than they cost, over all tables and within a budget.",
        configure_plan,
        plan,
    ),
    Command(
        "maintain",
        "Plan the maintenance steps that save more than they cost, run them with --run, and show their effects.",
        configure,
        run,
    ),
)
