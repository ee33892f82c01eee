"""``lakehouse plan``: the plan of a maintenance run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from lakehouse_lib.cli.command import Command, Report, add_exit_code
from lakehouse_lib.cli.fleet_plan import add_fleet, plan_report


def configure(parser: ArgumentParser) -> None:
    add_fleet(parser)
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Plan a maintenance run; nothing is changed."""
    return plan_report("plan", arguments)


COMMANDS = (Command("plan", "Plan the maintenance that pays, over all tables and within a budget.", configure, run),)
