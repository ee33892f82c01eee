"""Pins: versions that are kept by name, with their data files and the part of the log that opens them.

A pin is a record of the files of its version (``file_records``). It is no action of the log, because it is not part of
any version: a restore or a clone would bring back old pins with an old version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.errors import StoreError
from lakehouse_lib.log.file_records import descriptions, put_record, record_path
from lakehouse_lib.store import ObjectStore

#: Valid names of pins: they are file names in every store.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)

_KIND, _KEY = "pins", b"pin"


@dataclass(frozen=True)
class Pin:
    """A version that is kept by name; ``timestamp`` is the time at which it was pinned, ms since the epoch."""

    name: str
    version: int
    timestamp: int


def put_pin(store: ObjectStore, pin: Pin, files: pa.Table) -> bool:
    """Pin a version with these files (a files table), unless the name is in use; whether it was pinned."""
    description = {"name": pin.name, "version": pin.version, "timestamp": pin.timestamp}
    return put_record(store, record_path(_KIND, pin.name), files, _KEY, description)


def delete_pin(store: ObjectStore, name: str) -> None:
    """Delete the pin of a name, if it exists."""
    store.delete_many([record_path(_KIND, name)])


def list_pins(store: ObjectStore) -> list[Pin]:
    """The pins, by version and name.

    Raises:
        StoreError: the record of a pin cannot be read.
    """
    try:
        pins = [
            Pin(str(described["name"]), int(described["version"]), int(described["timestamp"]))
            for described in descriptions(store, _KIND, _KEY)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"the record of a pin has no valid {error}",
            table=store.root,
            hint=f"Delete the record below _lakehouse/{_KIND}, and pin the version again",
        ) from error
    return sorted(pins, key=lambda pin: (pin.version, pin.name))


def oldest_pinned(store: ObjectStore) -> int | None:
    """The oldest version that is pinned; None: no version is."""
    return min((pin.version for pin in list_pins(store)), default=None)
