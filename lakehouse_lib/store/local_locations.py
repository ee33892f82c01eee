"""Local locations: paths, taken literally, and ``file:`` URIs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store.local import LocalStore
from lakehouse_lib.store.schemes import StoreKind
from lakehouse_lib.store.uris import is_utf8, location_text, parse, scheme_of

_ROOTS = "allowed_roots"


def open_local(location: str, options: Mapping[str, str]) -> LocalStore:
    """The store of a folder. Nothing is read or created.

    Raises:
        InvalidArgumentError: the location or an option is not valid.
    """
    folder = _absolute(_path(location) if scheme_of(location) else location)
    unknown = sorted(options.keys() - {_ROOTS})
    if unknown:
        raise InvalidArgumentError(
            f"the storage options {unknown} do not apply to a local table",
            table=folder,
            hint="Leave these options out; the only option of the local store is allowed_roots",
            code="DELTA_INVALID_STORAGE_OPTION",
        )
    return LocalStore(folder, allowed_roots=_folders(options.get(_ROOTS, ""), folder))


def _option_of(name: str) -> str | None:
    return name if name == _ROOTS else None


def _path(uri: str) -> str:
    _, host, path = parse(uri)
    if host not in ("", "localhost"):
        raise InvalidArgumentError(
            f"the location {location_text(uri)} has a host",
            hint="Write file:///path",
            code="DELTA_INVALID_TABLE_LOCATION",
        )
    if not path:
        raise InvalidArgumentError(
            f"the location {location_text(uri)} has no path",
            hint="Write file:///path",
            code="DELTA_INVALID_TABLE_LOCATION",
        )
    return path


def _absolute(path: str) -> str:
    if "\x00" in path or not is_utf8(path):
        raise InvalidArgumentError(
            f"{path!r} is not a table location: it has a NUL, or is not UTF-8",
            hint="Use another name",
            code="DELTA_INVALID_TABLE_LOCATION",
        )
    try:
        folder = Path(path).expanduser().absolute()
    except RuntimeError:
        raise InvalidArgumentError(
            f"{path!r} is not a table location: the home folder is unknown",
            hint="Write the whole path",
            code="DELTA_INVALID_TABLE_LOCATION",
        ) from None
    # After a symbolic link, ".." is the parent of the link's target. Spark resolves links, so they are resolved here.
    return os.path.realpath(folder) if ".." in folder.parts else str(folder)


def _folders(listed: str, table: str) -> list[str]:
    if not isinstance(listed, str):
        raise InvalidArgumentError(
            f"the storage option allowed_roots is of type {type(listed).__name__}; expected text",
            table=table,
            hint=f"Write the folders as one text, separated by {os.pathsep!r}",
            code="DELTA_INVALID_STORAGE_OPTION",
        )
    folders = [folder for folder in listed.split(os.pathsep) if folder]
    for folder in folders:
        if not Path(folder).is_absolute() or ".." in Path(folder).parts or "\x00" in folder or not is_utf8(folder):
            raise InvalidArgumentError(
                f"the storage option allowed_roots has {folder!r}; expected absolute paths",
                table=table,
                hint="Give absolute paths of folders without '..'",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
    return folders


LOCAL = StoreKind(("file",), open_local, _option_of, roots_separator=os.pathsep)
