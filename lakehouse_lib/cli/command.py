"""A command of ``lakehouse``, and the report that it returns."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import DeltaError, InvalidArgumentError

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal

#: Exit codes. DONE: the command has done its work. FAILED: an error. USAGE: the command line is not valid. WORK: there
#: is something to do, and the command line has ``--exit-code``.
DONE, FAILED, USAGE, WORK = 0, 1, 2, 3


class UsageError(InvalidArgumentError):
    """The command line is not valid."""

    code: str = "DELTA_INVALID_COMMAND_LINE"


@dataclass(frozen=True)
class Report:
    """The result of a command.

    Attributes:
        document: the plain values that ``--json`` prints.
        show: prints the result on a terminal.
        errors: pairs of a table's name and its error. If there is an error, the command has failed.
        has_work: whether there is something to do; ``--exit-code`` then makes the exit code ``WORK``.
    """

    document: Mapping[str, Any]
    show: Callable[[Terminal], None]
    errors: Sequence[tuple[str, DeltaError]] = ()
    has_work: bool = False


@dataclass(frozen=True)
class Command:
    """A command. The module of a command imports the library when the command runs, so that ``--help`` is fast.

    Attributes:
        name: the words after ``lakehouse``, such as ``registry check``.
        help: a sentence for ``--help``.
        configure: adds the arguments of the command to its parser.
        run: does the work.
    """

    name: str
    help: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Report]


def add_run(parser: ArgumentParser, what: str) -> None:
    """Add ``--run``, without which a command changes nothing."""
    parser.add_argument("--run", action="store_true", help=f"{what}; without it, only print what would be done")


def add_exit_code(parser: ArgumentParser) -> None:
    """Add ``--exit-code``: the exit code is 3 if there is something to do."""
    parser.add_argument("--exit-code", action="store_true", help="exit with code 3 if there is something to do")
