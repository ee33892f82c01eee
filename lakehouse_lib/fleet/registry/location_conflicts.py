"""Find conflicting locations in a registry, such as a landing folder inside a table, where vacuum would delete files.

Messages name the registry's keys and no location, because a location may hold a secret.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lakehouse_lib.ingestion.name_pattern import NamePattern
from lakehouse_lib.store.schemes import canonical_location

if TYPE_CHECKING:
    from lakehouse_lib.fleet.registry.registry import Registry

#: A key of the registry, with the keys above it: ``("tables", "orders", "uri")``.
Key = tuple[str, ...]

#: The ending of the names of data files.
_DATA_FILE = ".parquet"


def location_conflicts(registry: Registry, quarantine_suffix: str) -> Iterator[tuple[Key, str]]:
    """The conflicts of a registry: for each, the key to change, and a message with the keys and the solution."""
    owners: dict[str, Key] = {}
    loaded_tables: dict[str, str] = {}
    for name, table in registry.tables.items():
        key: Key = ("tables", name)
        owner = owners.setdefault(canonical_location(table.uri), key)
        if owner != key:
            yield (*key, "uri"), f"{_text(key)} has the location of {_text(owner)}; expected one entry for a location"
        if table.source is not None:
            loaded_tables[canonical_location(table.uri)] = name
    for name, table in registry.tables.items():
        if table.quarantine is None:
            continue
        quarantine = canonical_location(table.quarantine)
        key = ("tables", name, "quarantine")
        other = name if quarantine == canonical_location(table.uri) else loaded_tables.get(quarantine)
        if other is not None:
            yield (
                key,
                f"{_text(key)} has the location of tables.{other}; expected another location, because rejected rows "
                "need their own table",
            )
        namesake = registry.tables.get(name + quarantine_suffix)
        if namesake is not None and quarantine != canonical_location(namesake.uri):
            yield (
                ("tables", name + quarantine_suffix),
                f"tables.{name}{quarantine_suffix} has the name of {name}'s quarantine, but not its location; rename "
                f"it, or give it the location of {_text(key)}",
            )
        owners.setdefault(quarantine, key)
    if registry.report is not None:
        output = canonical_location(registry.report.output)
        key = ("report", "output")
        if output in owners:
            yield (
                key,
                f"{_text(key)} has the location of {_text(owners[output])}, which the report would replace; expected "
                "another location",
            )
        owners[output] = key
    yield from _folder_conflicts(registry, owners)
    yield from _landed_tables(registry, owners)
    for key, file in _files(registry).items():
        for folder in _folders_around(file):
            if folder in owners:
                owner_text = _text(owners[folder])
                yield (
                    key,
                    f"{_text(key)} is in the folder of {owner_text}, where vacuum would delete it; move it elsewhere",
                )


def _folder_conflicts(registry: Registry, owners: Mapping[str, Key]) -> Iterator[tuple[Key, str]]:
    """Conflicts of ``ledger`` and ``records`` with tables and landing folders: equal or nested locations.

    Jobs and suppliers write into tables and landing folders, and vacuum deletes files of tables.
    """
    if registry.ledger is None and registry.records is None:
        return
    owned = [(_real_place(folder), owner) for folder, owner in owners.items()]
    for name, table in registry.tables.items():
        if table.source is not None:
            owned.append((_real_place(canonical_location(table.source.landing)), ("tables", name, "source", "landing")))
    for name, location in (("ledger", registry.ledger), ("records", registry.records)):
        if location is None:
            continue
        own = _real_place(canonical_location(location))
        for folder, owner in owned:
            if _lies_in(own, folder) or _lies_in(folder, own):
                yield (
                    (name,),
                    f"{name} and {_text(owner)} have the same location, or one is inside the other; move the {name}",
                )
        owned.append((own, (name,)))


def _landed_tables(registry: Registry, owners: Mapping[str, Key]) -> Iterator[tuple[Key, str]]:
    """Tables below a landing folder, if a load would take their data files, or vacuum would delete source files."""
    places = [(_real_place(folder), owner) for folder, owner in owners.items()]
    for name, table in registry.tables.items():
        if table.source is None:
            continue
        pattern = NamePattern(table.source.pattern)
        landing = f"{_real_place(canonical_location(table.source.landing)).rstrip('/')}/"
        for place, owner in places:
            if not place.startswith(landing):
                continue
            folder = place.removeprefix(landing)
            if _lies_in(pattern.folder, folder) or (
                pattern.may_match_below(folder) and pattern.may_end_with(_DATA_FILE)
            ):
                yield (
                    owner,
                    f"{_text(owner)} is in the folder of tables.{name}.source.landing, and the pattern of this source "
                    "selects files of the table's folder; move it elsewhere",
                )


def _files(registry: Registry) -> dict[Key, str]:
    files: dict[Key, str] = {("report", "sql"): registry.report.sql} if registry.report is not None else {}
    for name, table in registry.tables.items():
        key: Key = ("tables", name)
        landing = table.source.landing if table.source is not None else None
        own = {(*key, "source", "landing"): landing, (*key, "schema"): table.schema_file, (*key, "suite"): table.suite}
        files.update({file_key: path for file_key, path in own.items() if path is not None})
    return files


def _text(key: Key) -> str:
    return ".".join(key)


def _real_place(location: str) -> str:
    """The path with symbolic links resolved; other locations are unchanged."""
    return os.path.realpath(f"/{location.lstrip('/')}") if location.startswith("/") else location


def _lies_in(inner: str, folder: str) -> bool:
    return f"{inner}/".startswith(f"{folder.rstrip('/')}/")


def _folders_around(path: str) -> Iterator[str]:
    """The path itself, which may be a table's folder, and its parents up to a folder that vacuum skips."""
    scheme, separator, rest = canonical_location(path).rpartition("://")
    for folder in (PurePosixPath(rest), *PurePosixPath(rest).parents):
        yield f"{scheme}{separator}{folder}"
        if folder.name.startswith(("_", ".")):
            return
