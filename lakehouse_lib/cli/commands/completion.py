"""``lakehouse completion``: print the script that completes the command line in a shell."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.cli.command import Command, Report

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(arguments: Namespace) -> Report:
    """The script for a shell."""
    from lakehouse_lib.cli.completion import script

    text = script(arguments.shell)

    def show(terminal: Terminal) -> None:
        terminal.line(text)

    return Report({"command": "completion", "script": text}, show)


COMMANDS = (Command("completion", "Print the script that completes lakehouse in bash, zsh or fish.", configure, run),)
