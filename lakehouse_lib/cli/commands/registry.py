"""``lakehouse registry check`` and ``schema``: check a registry, and print the schema of registries."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.cli.command import Command, Report
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.command_options import add_storage_options
from lakehouse_lib.errors import RegistryError

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.registry import Problem


def configure_check(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the registry: a path or a URI")
    add_storage_options(parser)


def check(arguments: Namespace) -> Report:
    """Find every mistake of a registry, with its line and column."""
    from lakehouse_lib.fleet.registry import check_registry

    file: str = arguments.file
    problems = check_registry(file, options_for(file, arguments.storage_options))
    values = [{"key": each.key, "message": each.message, "line": each.line, "column": each.column} for each in problems]
    document = {"command": "registry check", "registry": file, "is_valid": not problems, "problems": values}

    def show(terminal: Terminal) -> None:
        if not problems:
            terminal.line(f"{file} is valid")

    errors = [(file, RegistryError(_text(file, each))) for each in problems]
    return Report(document, show, errors)


def _text(file: str, problem: Problem) -> str:
    """A mistake as compilers print it: ``FILE:LINE:COLUMN: KEY: MESSAGE``."""
    place = ":".join(str(part) for part in (file, problem.line, problem.column) if part is not None)
    return ": ".join(part for part in (place, problem.key, problem.message) if part)


def configure_schema(_: ArgumentParser) -> None:
    """The command has no arguments."""


def schema(_: Namespace) -> Report:
    """The JSON Schema of registries, for editors."""
    from lakehouse_lib.fleet.registry import registry_schema

    document = registry_schema()
    return Report(document, lambda terminal: terminal.line(json.dumps(document, indent=2)))


COMMANDS = (
    Command("registry check", "Find every mistake of a registry, with its line and column.", configure_check, check),
    Command("registry schema", "Print the JSON Schema of registries, for editors.", configure_schema, schema),
)
