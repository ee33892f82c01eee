"""Pins: versions with a name, whose data files and log files are not deleted.

A pin is a record of the files of its version (``file_records``). It is not an action of the log. Otherwise a restore or
a clone of an old version would bring back old pins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.errors import StoreError
from lakehouse_lib.log.retention.file_records import descriptions, put_record, record_path
from lakehouse_lib.store import ObjectStore

#: Valid names of pins. They are valid file names in every store.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)

#: The kind of the records of pins, and the key of their descriptions.
KIND, KEY = "pins", b"pin"


@dataclass(frozen=True)
class Pin:
    """A pinned version; ``timestamp`` is the time at which it was pinned, in ms since the epoch."""

    name: str
    version: int
    timestamp: int


def put_pin(store: ObjectStore, pin: Pin, files: pa.Table) -> bool:
    """Write a pin with the files of its version (a files table), unless the name is in use.

    Returns:
        Whether the pin was written.
    """
    description = {"name": pin.name, "version": pin.version, "timestamp": pin.timestamp}
    return put_record(store, record_path(KIND, pin.name), files, KEY, description)


def delete_pin(store: ObjectStore, name: str) -> None:
    """Delete the pin of a name, if it exists."""
    store.delete_many([record_path(KIND, name)])


def list_pins(store: ObjectStore) -> list[Pin]:
    """The pins, by version and name.

    Raises:
        StoreError: the record of a pin cannot be read.
    """
    try:
        pins = [
            Pin(str(description["name"]), int(description["version"]), int(description["timestamp"]))
            for description in descriptions(store, KIND, KEY)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"the record of a pin is not valid ({error!r}); expected name, version and timestamp",
            table=store.root,
            hint=f"Delete the record below _lakehouse/{KIND}, and pin the version again",
        ) from error
    return sorted(pins, key=lambda pin: (pin.version, pin.name))


def oldest_pinned(store: ObjectStore) -> int | None:
    """The oldest pinned version; None if no version is pinned."""
    return min((pin.version for pin in list_pins(store)), default=None)
