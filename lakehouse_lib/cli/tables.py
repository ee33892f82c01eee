"""The tables of a command line: locations, or names of a registry."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.cli.command import UsageError
from lakehouse_lib.cli.progress import Progress, progress
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.command_options import add_storage_options
from lakehouse_lib.errors import DeltaError, RegistryError, TableNotFoundError

if TYPE_CHECKING:
    from lakehouse_lib.fleet.registry import Registry
    from lakehouse_lib.fleet.table_run import MaintainedTable

#: The number of tables that are read at the same time.
_AT_ONCE = 8


def add_tables(parser: ArgumentParser) -> None:
    """Add the arguments that name tables."""
    parser.add_argument(
        "tables",
        nargs="*",
        metavar="TABLE",
        help="a path or a URI; with --registry, a name of the registry",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--registry",
        metavar="FILE",
        help="the registry of tables and policies; without TABLE: all tables of the registry",
    )
    source.add_argument("--under", metavar="PREFIX", help="all tables below this folder or URI")
    add_storage_options(parser)


def tables_of(arguments: Namespace, registry: Registry | None) -> list[MaintainedTable]:
    """The tables that the command line names. Requests are made only for ``--under``, and for ``--registry`` if no
    table is named.

    Args:
        registry: the registry of the command line (``registry_of``).

    Raises:
        UsageError: the command line names no table, or a name that the registry does not have.
        TableNotFoundError: the prefix of ``--under`` has no table below it.
        DeltaError: a location is not valid, or a prefix cannot be listed.
    """
    from lakehouse_lib.fleet.table_run import MaintainedTable
    from lakehouse_lib.store import open_store

    if registry is not None:
        return _registered(registry, arguments)
    locations = [*arguments.tables]
    if arguments.under is not None:
        from lakehouse_lib.fleet.discover import discover

        locations += discover(arguments.under, options_for(arguments.under, arguments.storage_options))
        if not locations:
            raise TableNotFoundError("the folder contains no table", table=arguments.under, hint="Check the location")
    if not locations:
        raise UsageError("no table is given", hint="Give the location of a table, --registry FILE or --under PREFIX")
    return [
        MaintainedTable(location, open_store(location, options_for(location, arguments.storage_options)))
        for location in dict.fromkeys(locations)
    ]


def registry_of(arguments: Namespace) -> Registry | None:
    """The registry of the command line, or None.

    Raises:
        RegistryError: the registry cannot be read, or is not valid.
    """
    from lakehouse_lib.fleet.registry import read_registry

    path: str | None = arguments.registry
    if path is None:
        return None
    return read_registry(path, options_for(path, arguments.storage_options))


def _registered(registry: Registry, arguments: Namespace) -> list[MaintainedTable]:
    """The named tables of a registry. Without names, all tables except quarantines and reports that do not exist."""
    from lakehouse_lib.fleet.table_run import MaintainedTable
    from lakehouse_lib.log import latest_version

    tables = []
    for name in dict.fromkeys(arguments.tables or registry.fleet()):
        try:
            entry = registry.table(name)
        except RegistryError as error:
            raise UsageError(error.message, hint=f"Give the name of a table in {arguments.registry}") from None
        table = MaintainedTable.of(name, entry, options_for(entry.uri, arguments.storage_options))
        if arguments.tables or name in registry.tables or latest_version(table.store) is not None:
            tables.append(table)
    return tables


@dataclass(frozen=True)
class TableResult:
    """The result of a command on one table.

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
    """The results of a command on each of its tables."""

    results: list[TableResult]

    @property
    def successes(self) -> list[tuple[str, dict[str, Any]]]:
        """The name and the result of each table without an error."""
        return [(entry.table.name, entry.result) for entry in self.results if entry.result is not None]

    @property
    def errors(self) -> list[tuple[str, DeltaError]]:
        """The name and the error of each table with an error."""
        return [(entry.table.name, entry.error) for entry in self.results if entry.error is not None]

    def document(self, command: str, **fields: Any) -> dict[str, Any]:
        """The document of a command, with the tables in the order of the command line."""
        return {"command": command, **fields, "tables": [entry.to_dict() for entry in self.results]}


def on_tables(
    arguments: Namespace,
    work: Callable[[MaintainedTable], dict[str, Any]],
    *,
    changes: bool = False,
    bar: Progress | None = None,
) -> TableResults:
    """Do the work on each table. An error of one table does not stop the work on the other tables.

    Args:
        work: returns the result for a table, as plain values.
        changes: whether the work changes the tables. Tables are then processed one after the other, else eight at once.
        bar: shows the number of processed tables; None: a new bar.
    """
    from lakehouse_lib.threads import map_in_threads

    tables = tables_of(arguments, registry_of(arguments))

    def attempt(table: MaintainedTable) -> TableResult:
        try:
            return TableResult(table, work(table))
        except DeltaError as error:
            return TableResult(table, None, error)

    results = []
    with progress("tables") if bar is None else nullcontext(bar) as table_bar:
        table_bar.expect(len(tables))
        for result in map_in_threads(attempt, tables, 0 if changes else _AT_ONCE, ahead=2 * _AT_ONCE):
            results.append(result)
            table_bar.advance(result.table.name)
    return TableResults(results)


def with_policy(table: MaintainedTable, **values: Any) -> MaintainedTable:
    """The table with a policy that has these values; None: the value of the policy is unchanged."""
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
