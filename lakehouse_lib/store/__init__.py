"""Where a table lives. ``open_store`` picks the implementation from the location."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store.base import ObjectMeta, ObjectStore
from lakehouse_lib.store.local import LocalStore
from lakehouse_lib.store.uris import is_utf8, parse, scheme_of, shown

__all__ = ["LocalStore", "ObjectMeta", "ObjectStore", "open_store"]


def open_store(table_uri: str | os.PathLike[str], storage_options: dict[str, str] | None = None) -> ObjectStore:
    """The store of the table at ``table_uri``: a local path, a ``file:`` URI, or ``s3://bucket/folder``.

    Nothing is read or created.

    Args:
        table_uri: a path (relative ones against the working folder), ``file:///...``, ``s3://...`` or ``s3a://...``. A
            path is taken as it is written; in a URI percent-encoding is undone. Where ``..`` is in a path, symbolic
            links are followed.
        storage_options: options of the store; those of S3 are in docs/stores.md. ``allowed_roots``: other folders whose
            files the table may refer to, such as the source of a shallow clone; files outside the table's own folder
            are refused otherwise. They are only read: no verb writes or deletes there. Local ones are absolute paths,
            separated by ``os.pathsep`` (``:``), those of S3 are locations, separated by spaces.

    Raises:
        InvalidArgumentError: no location: an empty one, a scheme without a store here, a URI with credentials, a query
            or a fragment; options nobody reads; S3 without boto3. A location that may hold a secret is not told.
    """
    text = os.fspath(table_uri) if isinstance(table_uri, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        what = "an empty text" if text == "" else f"a value of type {type(table_uri).__name__}"
        raise InvalidArgumentError(
            f"{what} is no table location",
            hint="Give a path, a file: URI or s3://bucket/folder",
            code="DELTA_INVALID_TABLE_LOCATION",
        )
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise InvalidArgumentError(  # what they are may hold a secret
            f"storage options of type {type(storage_options).__name__} ({shown(text)})",
            hint="Give a dictionary from names to text, or leave them out",
            code="DELTA_INVALID_STORAGE_OPTION",
        )
    scheme = scheme_of(text)
    if scheme in ("s3", "s3a"):
        return _s3(text, storage_options or {})
    if scheme not in ("", "file"):
        raise InvalidArgumentError(
            f"no store for {scheme}: locations ({shown(text)})",
            hint="Tables on a local disk, a mounted file system and S3 are supported",
            code="DELTA_UNSUPPORTED_STORE",
        )
    folder = _absolute(_path(text) if scheme else text)
    options = dict(storage_options or {})
    roots = _folders(options.pop("allowed_roots", ""), folder)
    if options:
        raise InvalidArgumentError(
            f"storage options {sorted(options)} for a local table",
            table=folder,
            hint="The local store takes allowed_roots only; leave the others out",
            code="DELTA_INVALID_STORAGE_OPTION",
        )
    return LocalStore(folder, allowed_roots=roots)


def _path(uri: str) -> str:
    _, host, path = parse(uri)
    if host not in ("", "localhost"):
        raise InvalidArgumentError(
            f"the location {shown(uri)} has a host", hint="Write file:///path", code="DELTA_INVALID_TABLE_LOCATION"
        )
    if not path:
        raise InvalidArgumentError(
            f"the location {shown(uri)} has no path", hint="Write file:///path", code="DELTA_INVALID_TABLE_LOCATION"
        )
    return path


def _absolute(path: str) -> str:
    if "\x00" in path or not is_utf8(path):
        raise InvalidArgumentError(
            f"{path!r} is no table location: it has a NUL in it, or is no UTF-8",
            hint="Use another name",
            code="DELTA_INVALID_TABLE_LOCATION",
        )
    try:
        folder = Path(path).expanduser().absolute()
    except RuntimeError:
        raise InvalidArgumentError(
            f"{path!r} is no table location: that home folder is not known",
            hint="Write the whole path",
            code="DELTA_INVALID_TABLE_LOCATION",
        ) from None
    # Behind a symbolic link ".." is not what it is in the text: the table has to be where Spark finds it, too.
    return os.path.realpath(folder) if ".." in folder.parts else str(folder)


def _s3(uri: str, options: dict[str, str]) -> ObjectStore:
    if importlib.util.find_spec("boto3") is None:
        raise InvalidArgumentError(
            f"{uri.partition(':')[0]}: locations need boto3, which is not installed",
            hint="Install it: pip install 'lakehouse[s3]'",
            code="DELTA_MISSING_PACKAGE",
        )
    from lakehouse_lib.store.s3.s3_store import S3Store

    return S3Store.at(uri, options)


def _folders(listed: str, table: str) -> list[str]:
    if not isinstance(listed, str):
        raise InvalidArgumentError(
            f"the storage option allowed_roots is no text but {type(listed).__name__}",
            table=table,
            hint=f"Write the folders as one text, separated by {os.pathsep!r}",
            code="DELTA_INVALID_STORAGE_OPTION",
        )
    folders = [one for one in listed.split(os.pathsep) if one]
    for one in folders:
        if not Path(one).is_absolute() or ".." in Path(one).parts or "\x00" in one or not is_utf8(one):
            raise InvalidArgumentError(
                f"the storage option allowed_roots names {one!r}",
                table=table,
                hint="Give absolute paths of folders",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
    return folders
