"""The parser of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from lakehouse_lib.cli.command import Command, UsageError
from lakehouse_lib.cli.commands import commands
from lakehouse_lib.distribution import VERSION

_EPILOG = "No command changes a table without --run. Exit codes: 0 done, 1 error, 2 usage, 3 work is due (--exit-code)."


class Parser(argparse.ArgumentParser):
    """A parser whose errors are ``UsageError``."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"See {self.prog} --help")


def parser() -> Parser:
    """The parser of ``lakehouse``, with a parser for each command."""
    root = Parser(
        prog="lakehouse", description="Look at Delta tables and maintain them.", epilog=_EPILOG, allow_abbrev=False
    )
    root.add_argument("--version", action="version", version=f"lakehouse {VERSION}")
    groups = {"": root.add_subparsers(metavar="COMMAND", required=True)}
    for command in commands():
        group, _, name = command.name.rpartition(" ")
        if group not in groups:
            above = groups[""].add_parser(group, help=f"commands for a {group}; see lakehouse {group} --help")
            groups[group] = above.add_subparsers(metavar="COMMAND", required=True)
        _add(groups[group].add_parser(name, help=command.help, description=command.help, allow_abbrev=False), command)
    return root


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line; ``command`` is its command.

    Raises:
        UsageError: the command line is not valid. The text does not show the value of an unknown option, because the
            value may be secret.
    """
    arguments, unknown_words = parser().parse_known_args(words)
    if unknown_words:
        names = [word.partition("=")[0] for word in unknown_words if word.startswith("-")]
        if any(name.startswith("--storage-option") for name in names):
            raise UsageError(
                "storage options are not accepted on the command line, where all users of the machine see them",
                hint="Set the store's environment variables, or give --storage-options-file FILE",
            )
        problem = f"unknown option {', '.join(names)}" if names else "too many arguments"
        raise UsageError(problem, hint=f"See lakehouse {arguments.command.name} --help")
    return arguments


def _add(parser: argparse.ArgumentParser, command: Command) -> None:
    command.configure(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=command)
