"""Whether places that a registry names get in each other's way, which shows only when files are gone.

Locations are in no message: they may hold a secret. Keys of the registry name them.
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
    """What is wrong, in words that name the keys and the way out."""
    owners: dict[str, str] = {}
    loaded: dict[str, str] = {}
    for name, table in registry.tables.items():
        owners.setdefault(place(table.uri), f"tables.{name}")
        if table.source is not None:
            loaded[place(table.uri)] = name
    for name, table in registry.tables.items():
        if table.quarantine is None:
            continue
        refused = place(table.quarantine)
        other = name if refused == place(table.uri) else loaded.get(refused)
        if other is not None:
            yield f"tables.{name}.quarantine is where tables.{other} is: refused rows need a table of their own"
        called = registry.tables.get(name + quarantine_suffix)
        if called is not None and refused != place(called.uri):
            yield (
                f"tables.{name}{quarantine_suffix} is what the quarantine of {name} is called, and is not where "
                f"tables.{name}.quarantine is: give it another name, or that location"
            )
        owners.setdefault(refused, f"tables.{name}.quarantine")
    if registry.report is not None:
        output = place(registry.report.output)
        if output in owners:
            yield f"report.output is where {owners[output]} is, which it would replace: give it a place of its own"
        owners[output] = "report.output"
    if registry.ledger is not None:
        yield from _around_the_ledger(registry, registry.ledger, owners)
    for key, file in _files(registry).items():
        for folder in _folders_around(file):
            if folder in owners:
                yield f"{key} is in the folder of {owners[folder]}, where vacuum deletes what is not its data: move it"


def _around_the_ledger(registry: Registry, ledger: str, owners: Mapping[str, str]) -> Iterator[str]:
    """Name what shares a folder with the ledger: jobs and suppliers write there, and could delete its documents."""
    landings = [
        (table.source.landing, f"tables.{name}.source.landing")
        for name, table in registry.tables.items()
        if table.source is not None
    ]
    ledger_place = _real_place(place(ledger))
    for owned, owner in [*owners.items(), *landings]:
        folder = _real_place(place(owned))
        if _lies_in(ledger_place, folder) or _lies_in(folder, ledger_place):
            yield f"ledger and {owner} are in the same place, or one of them in the other: move the ledger"


def _files(registry: Registry) -> dict[str, str]:
    files = {"report.sql": registry.report.sql} if registry.report is not None else {}
    for name, table in registry.tables.items():
        landing = table.source.landing if table.source is not None else None
        own = {"source.landing": landing, "schema": table.schema_file, "suite": table.suite}
        files.update({f"tables.{name}.{key}": path for key, path in own.items() if path is not None})
    return files


def place(location: str) -> str:
    """One spelling of a location, by which two of them are compared: that of the store that opens it."""
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


def _real_place(place: str) -> str:
    """The place without symbolic links, as far as it is there."""
    return os.path.realpath(f"/{place.lstrip('/')}") if place.startswith("/") else place


def _lies_in(inner: str, folder: str) -> bool:
    return f"{inner}/".startswith(f"{folder.rstrip('/')}/")


def _folders_around(path: str) -> Iterator[str]:
    """The path, as it may be a table's folder itself, and each folder above it up to one that vacuum leaves alone."""
    for folder in (PurePosixPath(path), *PurePosixPath(path).parents):
        yield str(folder)
        if folder.name.startswith(("_", ".")):
            return
