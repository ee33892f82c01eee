"""The tables of a command line: locations, or names of a registry."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.cli.command import UsageError
from lakehouse_lib.cli.progress import progress
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.command_options import add_storage_options
from lakehouse_lib.errors import DeltaError, InvalidArgumentError

if TYPE_CHECKING:
    from lakehouse_lib.fleet.registry import Registry
    from lakehouse_lib.fleet.table_run import MaintainedTable

#: Tables that are read at the same time.
_AT_ONCE = 8


def add_tables(parser: ArgumentParser) -> None:
    """Add the arguments that name tables."""
    parser.add_argument(
        "tables",
        nargs="*",
        metavar="TABLE",
        help="a path or a URI; with --registry, a name of the registry",
    )
    parser.add_argument(
        "--registry", metavar="FILE", help="the registry; without TABLE: all of its tables, with their policies"
    )
    add_storage_options(parser)


def tables_of(arguments: Namespace) -> list[MaintainedTable]:
    """The tables that the command line names. Opening their stores makes no request.

    Raises:
        UsageError: it names no table.
        InvalidArgumentError: a location is not valid, or the registry is not valid or lacks a table.
    """
    if arguments.registry is not None:
        return _registered(read(arguments.registry), arguments)
    if not arguments.tables:
        raise UsageError("no table is given", hint="Give the path or URI of a table, or --registry FILE")
    from lakehouse_lib.fleet.table_run import MaintainedTable
    from lakehouse_lib.store import open_store

    return [
        MaintainedTable(location, open_store(location, options_for(location, arguments.storage_options)))
        for location in dict.fromkeys(arguments.tables)
    ]


def read(path: str) -> Registry:
    """The registry in a file.

    Raises:
        InvalidArgumentError: it cannot be read, or is not valid.
    """
    from lakehouse_lib.fleet.registry import RegistryError, read_registry

    try:
        return read_registry(path)
    except RegistryError as error:
        raise InvalidArgumentError(str(error.args[0]), code=error.code) from None


def _registered(registry: Registry, arguments: Namespace) -> list[MaintainedTable]:
    from lakehouse_lib.fleet.registry import RegistryError
    from lakehouse_lib.fleet.table_run import MaintainedTable

    tables = []
    for name in dict.fromkeys(arguments.tables or registry.tables):
        try:
            table = registry.table(name)
        except RegistryError as error:
            raise UsageError(str(error.args[0]), hint=f"Give a name of {arguments.registry}") from None
        tables.append(MaintainedTable.of(name, table, options_for(table.uri, arguments.storage_options)))
    return tables


@dataclass(frozen=True)
class TableResult:
    """What a command has found or done on one table.

    Attributes:
        result: plain values; None after an error.
    """

    table: MaintainedTable
    result: dict[str, Any] | None
    error: DeltaError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        entry: dict[str, Any] = {"table": self.table.name, "location": self.table.store.root}
        if self.error is not None:
            return {**entry, "error": error_values(self.error)}
        return {**entry, "result": self.result}


@dataclass(frozen=True)
class TableResults:
    """What a command has found or done on each of its tables."""

    results: list[TableResult]

    @property
    def good(self) -> list[tuple[str, dict[str, Any]]]:
        """The name and the result of each table without an error."""
        return [(each.table.name, each.result) for each in self.results if each.result is not None]

    @property
    def errors(self) -> list[tuple[str, DeltaError]]:
        """The name and the error of each other table."""
        return [(each.table.name, each.error) for each in self.results if each.error is not None]

    def document(self, command: str, **fields: Any) -> dict[str, Any]:
        """The document of a command, with the tables in the order of the command line."""
        return {"command": command, **fields, "tables": [each.to_dict() for each in self.results]}


def on_tables(
    arguments: Namespace, work: Callable[[MaintainedTable], dict[str, Any]], *, changes: bool = False
) -> TableResults:
    """Do the work on each table. An error of a table does not stop the others.

    Args:
        changes: the work changes tables, so they are worked on one after the other.
    """
    from lakehouse_lib.threads import in_order

    tables = tables_of(arguments)

    def attempt(table: MaintainedTable) -> TableResult:
        try:
            return TableResult(table, work(table))
        except DeltaError as error:
            return TableResult(table, None, error)

    results = []
    with progress("tables", len(tables)) as advance:
        for result in in_order(attempt, tables, 0 if changes else _AT_ONCE, ahead=2 * _AT_ONCE):
            results.append(result)
            advance(result.table.name)
    return TableResults(results)


def with_policy(table: MaintainedTable, **values: Any) -> MaintainedTable:
    """The table with other values of its policy; None keeps a value."""
    changes = {name: value for name, value in values.items() if value is not None}
    return replace(table, policy=replace(table.policy, **changes))


def error_values(error: DeltaError) -> dict[str, Any]:
    """An error as plain values for JSON."""
    return {
        "code": error.code,
        "message": error.message,
        "table": error.table,
        "version": error.version,
        "hint": error.hint,
    }
