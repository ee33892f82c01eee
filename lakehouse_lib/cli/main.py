"""The entry point: parse the command line, run the command, print its report."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from lakehouse_lib.cli.command import DONE, FAILED, USAGE, WORK, Report, UsageError
from lakehouse_lib.cli.parser import parse
from lakehouse_lib.command_options import option
from lakehouse_lib.errors import DeltaError

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code.

    Standard output has the result only: tables, or one JSON document with ``--json``. Errors go to standard error, a
    line with the code and a line with the hint. With ``--json``, an error that stops the command is also printed to
    standard output, as ``{"error": ...}``, unless the command line is not valid.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    as_json = "--json" in words
    logging.basicConfig(level=logging.WARNING, format="warning: %(message)s")
    arguments = Namespace()
    try:
        arguments = parse(words)
        return _run(arguments)
    except UsageError as error:
        _print_error(error, arguments)
        return USAGE
    except DeltaError as error:
        return _failed(error, arguments, as_json=as_json)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        if "LAKEHOUSE_TRACEBACK" in os.environ:
            raise
        first_line = (str(error).splitlines() or [""])[0]
        unexpected = DeltaError(
            f"{type(error).__name__}: {first_line}",
            hint="This is a bug; set LAKEHOUSE_TRACEBACK=1 to see where it was raised",
            code="DELTA_UNEXPECTED_ERROR",
        )
        return _failed(unexpected, arguments, as_json=as_json)


def _failed(error: DeltaError, arguments: Namespace, *, as_json: bool) -> int:
    _print_error(error, arguments)
    if as_json:
        _print_json({"error": _values(error)})
    return FAILED


def _run(arguments: Namespace) -> int:
    # Libraries may print, but standard output has only the result.
    with contextlib.redirect_stdout(sys.stderr):
        report: Report = arguments.command.run(arguments)
    if arguments.json:
        _print_json(report.document)
    else:
        from lakehouse_lib.cli.terminal import Terminal

        with _to_reader():
            report.show(Terminal())
    for _, error in report.errors:
        _print_error(error, arguments)
    if report.errors:
        return FAILED
    return WORK if report.has_work and getattr(arguments, "exit_code", False) else DONE


@contextlib.contextmanager
def _to_reader() -> Iterator[None]:
    """A block that prints to standard output. If the reader of a pipe ends, such as head, no error is raised."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_json(document: Any) -> None:
    # ASCII, because standard output may not support all characters of names and paths.
    text = json.dumps(document, indent=2, default=_plain)
    with _to_reader():
        print(text)  # noqa: T201


def _print_error(error: DeltaError, arguments: Namespace) -> None:
    from lakehouse_lib.cli.terminal import printable

    print(printable(f"[{error.code}] {error.statement}"), file=sys.stderr)  # noqa: T201
    if error.hint:
        print(printable(f"hint: {_with_options(error.hint, vars(arguments))}"), file=sys.stderr)  # noqa: T201


def _with_options(hint: str, arguments: Mapping[str, Any]) -> str:
    """A hint with the options of the command instead of the arguments of Python's functions."""

    def option_of(match: re.Match[str]) -> str:
        name, value = match.groups()
        return option(name if value == "True" else f"no_{name}") if name in arguments else match[0]

    return re.sub(r"\b(\w+)=(True|False)\b", option_of, hint)


def _values(error: DeltaError) -> dict[str, Any]:
    from lakehouse_lib.cli.tables import error_values

    return error_values(error)


def _plain(value: Any) -> Any:
    """The JSON form of a value that JSON does not have."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
