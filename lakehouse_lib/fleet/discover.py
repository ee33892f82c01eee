"""Find the Delta tables below a folder or a prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from urllib.parse import quote

from lakehouse_lib.log.file_names import LOG
from lakehouse_lib.store import ObjectStore, open_store
from lakehouse_lib.threads import map_in_threads

_LOOKS_AT_ONCE = 8


def discover(location: str, storage_options: Mapping[str, str] | None = None) -> Iterator[str]:
    """The locations of the tables below ``location``, which may be a table itself.

    The folders in a folder are searched in the order of their names. A folder with a log is a table, and the folders
    in it are not searched. Links are not followed. Files of tables are not listed.

    Args:
        location: a path or URI.

    Raises:
        StoreError: a folder cannot be listed.
    """
    store = open_store(location, dict(storage_options or {}))
    if _has_log(store, ""):
        yield _location(store, "")
        return
    levels = [_folders(store, "")]
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
            continue
        folder, is_table = entry
        if is_table:
            yield _location(store, folder)
        else:
            levels.append(_folders(store, folder))


def _folders(store: ObjectStore, folder: str) -> Iterator[tuple[str, bool]]:
    """The folders in a folder, sorted, and whether each is a table."""
    paths = [f"{folder}/{name}" if folder else name for name in store.folders(folder)]
    threads = _LOOKS_AT_ONCE if store.is_remote else 0
    yield from zip(
        paths, map_in_threads(partial(_has_log, store), paths, threads, ahead=2 * _LOOKS_AT_ONCE), strict=True
    )


def _has_log(store: ObjectStore, folder: str) -> bool:
    """Whether a folder has a log. It reads one page of a listing; a list of subfolders would also list data files."""
    return next(store.list_from(f"{folder}/{LOG}" if folder else LOG), None) is not None


def _location(store: ObjectStore, folder: str) -> str:
    """The location of a folder, as ``open_store`` takes it: in a URI, names are percent-encoded."""
    location = f"{store.root.rstrip('/')}/{folder}" if folder else store.root
    scheme, separator, path = location.partition("://")
    return f"{scheme}://{quote(path, safe='/=+,:')}" if separator and not location.startswith("/") else location
