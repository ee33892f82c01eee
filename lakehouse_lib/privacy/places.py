"""A person's rows, table by table: the entries of an erasure plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from lakehouse_lib.privacy.erasure import LocatedRows, locate
from lakehouse_lib.privacy.keys import PersonKeys, any_of
from lakehouse_lib.privacy.purge import Proof
from lakehouse_lib.privacy.subject import Subject
from lakehouse_lib.privacy.unattributed import Unattributed


@dataclass(frozen=True)
class Place:
    """A person's rows in one table, by all its key columns.

    Attributes:
        table, uri, table_id, version: the registry's name, the location, the id in the table's metadata, and the
            version that was searched.
        keys: the typed keys of the rows.
        rows, files: the number of rows and files in that version; a row with two of the keys counts twice.
        unattributed: records of a quarantine whose key is missing or unreadable, for each key column.
        erase_mentions: whether ``keys`` and ``rows`` include unattributed records that mention the person.
        on_disk: ``{"rows", "files_with_rows", "files", "unreadable"}``, counted in every Parquet file in the folder;
            before ``with_disk`` only ``{"rows": 0}``.
    """

    table: str
    uri: str
    table_id: str
    version: int
    keys: PersonKeys
    rows: int
    files: int
    unattributed: tuple[Unattributed, ...]
    erase_mentions: bool
    on_disk: Mapping[str, int]

    @property
    def has_rows(self) -> bool:
        """Whether there is a row of the person, in a live file or in another file on disk."""
        return bool(self.rows or self.on_disk["rows"])

    def entry(self) -> dict[str, Any]:
        """The table's entry in the plan, without any key."""
        names = ("table", "uri", "table_id", "version", "rows", "files", "on_disk")
        entry = {name: getattr(self, name) for name in names}
        if not self.unattributed:
            return {**entry, "unattributed": None}
        unknown = {
            # A record without any key is counted for each key column, so the counts cannot be added.
            "condition": any_of([part.condition for part in self.unattributed]),
            "records": max(part.records for part in self.unattributed),
            "mentions": max(part.mentions for part in self.unattributed),
            "erased": self.erase_mentions,
        }
        return {**entry, "unattributed": unknown}

    def with_disk(self, proof: Proof) -> Place:
        """The place with a proof's counts as ``on_disk``."""
        return replace(self, on_disk=counts(proof))


def find_places(
    subject: Subject,
    subject_id: object,
    uris: Mapping[str, str],
    *,
    erase_mentions: bool,
    storage_options: Mapping[str, dict[str, str] | None] | None = None,
) -> dict[str, Place]:
    """A person's rows in the latest versions, by table name. Files on disk are not counted: see ``Place.with_disk``.

    Args:
        subject: the subject, with the quarantines of its tables.
        uris: location by table name.
        erase_mentions: whether unattributed records that mention the person count as the person's rows.
        storage_options: options of each table's store, by table name; default none.

    Raises:
        DeltaError: as ``erasure.locate``.
    """
    located = sorted(locate(subject, subject_id, uris, storage_options=storage_options), key=attrgetter("table"))
    return {
        table: _in_one(list(places), erase_mentions=erase_mentions)
        for table, places in groupby(located, key=attrgetter("table"))
    }


def counts(proof: Proof) -> dict[str, int]:
    """The counts of a proof, as ``Place.on_disk`` has them."""
    return {
        "rows": proof.rows,
        "files_with_rows": len(proof.matches),
        "files": proof.files,
        "unreadable": len(proof.unreadable),
    }


def total_rows(counts: Iterable[int | None]) -> int | None:
    """The sum of numbers of rows; None: one of them is not known."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _in_one(located: list[LocatedRows], *, erase_mentions: bool) -> Place:
    unknown = tuple(
        part.unattributed for part in located if part.unattributed is not None and part.unattributed.records
    )
    erased_records = unknown if erase_mentions else ()
    first = located[0]
    return Place(
        table=first.table,
        uri=first.uri,
        table_id=first.table_id,
        version=first.version,
        keys=PersonKeys(
            tuple(part.keys for part in located), tuple(lines for part in erased_records for lines in part.mentioned)
        ),
        rows=sum(part.rows for part in located) + sum(part.mentions for part in erased_records),
        files=sum(part.files for part in located),
        unattributed=unknown,
        erase_mentions=erase_mentions,
        on_disk={"rows": 0},
    )
