"""Find conflicting locations in a registry, such as a landing folder inside a table, where vacuum would delete files.

Messages name the registry's keys and no location, because a location may hold a secret.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store.schemes import kind_of
from lakehouse_lib.store.uris import parse

if TYPE_CHECKING:
    from lakehouse_lib.fleet.registry import Registry


def clashes(registry: Registry, quarantine_suffix: str) -> Iterator[str]:
    """A message for each conflict, with the registry's keys and what to change."""
    owners: dict[str, str] = {}
    loaded: dict[str, str] = {}
    for name, table in registry.tables.items():
        owners.setdefault(place(table.uri), f"tables.{name}")
        if table.source is not None:
            loaded[place(table.uri)] = name
    for name, table in registry.tables.items():
        if table.quarantine is None:
            continue
        quarantine = place(table.quarantine)
        other = name if quarantine == place(table.uri) else loaded.get(quarantine)
        if other is not None:
            yield (
                f"tables.{name}.quarantine has the location of tables.{other}; expected a location of its own, because "
                "rejected rows need their own table"
            )
        namesake = registry.tables.get(name + quarantine_suffix)
        if namesake is not None and quarantine != place(namesake.uri):
            yield (
                f"tables.{name}{quarantine_suffix} has the name of {name}'s quarantine, but not its location; rename "
                f"it, or give it the location of tables.{name}.quarantine"
            )
        owners.setdefault(quarantine, f"tables.{name}.quarantine")
    if registry.report is not None:
        output = place(registry.report.output)
        if output in owners:
            yield (
                f"report.output has the location of {owners[output]}, which the report would replace; expected a "
                "location of its own"
            )
        owners[output] = "report.output"
    if registry.ledger is not None:
        yield from _ledger_clashes(registry, registry.ledger, owners)
    for key, file in _files(registry).items():
        for folder in _folders_around(file):
            if folder in owners:
                yield f"{key} is in the folder of {owners[folder]}, where vacuum would delete it; move it elsewhere"


def _ledger_clashes(registry: Registry, ledger: str, owners: Mapping[str, str]) -> Iterator[str]:
    """A message for each table, report or landing folder that is the ledger's folder, inside it, or around it.

    Jobs and suppliers write in those folders, and could delete the ledger's documents.
    """
    landings = [
        (table.source.landing, f"tables.{name}.source.landing")
        for name, table in registry.tables.items()
        if table.source is not None
    ]
    ledger_place = _real_place(place(ledger))
    for owned, owner in [*owners.items(), *landings]:
        folder = _real_place(place(owned))
        if _lies_in(ledger_place, folder) or _lies_in(folder, ledger_place):
            yield f"ledger and {owner} have the same location, or one is inside the other; move the ledger"


def _files(registry: Registry) -> dict[str, str]:
    files = {"report.sql": registry.report.sql} if registry.report is not None else {}
    for name, table in registry.tables.items():
        landing = table.source.landing if table.source is not None else None
        own = {"source.landing": landing, "schema": table.schema_file, "suite": table.suite}
        files.update({f"tables.{name}.{key}": path for key, path in own.items() if path is not None})
    return files


def place(location: str) -> str:
    """The canonical spelling of a location, by which two locations are compared."""
    if "://" not in location:
        return posixpath.normpath(location)
    try:
        scheme, host, path = parse(location)
    except InvalidArgumentError:  # no store opens it
        return location
    if scheme == "file":
        return posixpath.normpath(path)
    kind = kind_of(location)
    return f"{kind.schemes[0] if kind else scheme}://{host}/{path.strip('/')}".rstrip("/")


def _real_place(location: str) -> str:
    """The path with symbolic links resolved; other locations are unchanged."""
    return os.path.realpath(f"/{location.lstrip('/')}") if location.startswith("/") else location


def _lies_in(inner: str, folder: str) -> bool:
    return f"{inner}/".startswith(f"{folder.rstrip('/')}/")


def _folders_around(path: str) -> Iterator[str]:
    """The path itself, which may be a table's folder, and its parents up to a folder that vacuum skips."""
    for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
        yield str(folder)
        if folder.name.startswith(("_", ".")):
            return
