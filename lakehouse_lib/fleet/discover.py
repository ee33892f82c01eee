"""Find the Delta tables below a folder or a prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakehouse_lib.log.file_names import LOG
from lakehouse_lib.store import open_store


def discover(location: str, storage_options: Mapping[str, str] | None = None) -> Iterator[str]:
    """The locations of the tables below ``location``, which may be a table itself, sorted.

    A folder with a log is a table, and the folders in it are not searched. Links are not followed.

    Args:
        location: a path or URI.

    Raises:
        StoreError: a folder cannot be listed.
    """
    store = open_store(location, dict(storage_options or {}))
    pending = [""]
    while pending:
        folder = pending.pop()
        folders = store.folders(folder)
        if LOG in folders:
            yield f"{store.root.rstrip('/')}/{folder}".rstrip("/") if folder else store.root
            continue
        pending += [f"{folder}/{name}" if folder else name for name in sorted(folders, reverse=True)]
