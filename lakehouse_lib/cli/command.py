"""A command of ``lakehouse``, and the report that it returns."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import DeltaError, InvalidArgumentError

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal

#: Exit codes: the command has done its work; it has failed; the command line is not valid; ``--exit-code`` was given,
#: and there is something to do.
DONE, FAILED, USAGE, WORK = 0, 1, 2, 3


class UsageError(InvalidArgumentError):
    """The command line is not valid."""

    code: str = "DELTA_INVALID_COMMAND_LINE"


@dataclass(frozen=True)
class Report:
    """The result of a command.

    Attributes:
        document: what ``--json`` prints: plain values.
        show: prints the result on a terminal.
        errors: the errors of some of the tables, by the name of the table. The command has failed if there are any.
        has_work: whether there is something to do. With ``--exit-code``, the exit code is then ``WORK``.
    """

    document: Mapping[str, Any]
    show: Callable[[Terminal], None]
    errors: Sequence[tuple[str, DeltaError]] = ()
    has_work: bool = False


@dataclass(frozen=True)
class Command:
    """A command. Its module imports the library when the command runs, so that ``--help`` is fast.

    Attributes:
        name: its words, such as ``registry check``.
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
