"""``lakehouse discover``: the tables below a folder or a prefix."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.cli.command import Command, Report
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.command_options import add_storage_options

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("prefix", metavar="PREFIX", help="a folder or a URI")
    add_storage_options(parser)


def run(arguments: Namespace) -> Report:
    """List the locations of the tables."""
    from lakehouse_lib.fleet.discover import discover

    prefix: str = arguments.prefix
    locations = list(discover(prefix, options_for(prefix, arguments.storage_options)))

    def show(terminal: Terminal) -> None:
        for location in locations:
            terminal.line(location)

    return Report({"command": "discover", "prefix": prefix, "tables": locations}, show)


COMMANDS = (Command("discover", "List the Delta tables below a folder or a prefix.", configure, run),)
