"""Where a table lives. ``open_store`` picks the implementation from the location."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store.base import ObjectMeta, ObjectStore
from lakehouse_lib.store.local import LocalStore

__all__ = ["LocalStore", "ObjectMeta", "ObjectStore", "open_store"]


def open_store(table_uri: str | os.PathLike[str], storage_options: dict[str, str] | None = None) -> ObjectStore:
    """The store of the table at ``table_uri``: a local path, a ``file:`` URI, or ``s3://bucket/folder``.

    Nothing is read or created.

    Args:
        table_uri: a path (relative ones against the working folder), ``file:///...``, ``s3://...`` or ``s3a://...``.
        storage_options: options of the store; those of S3 are in docs/stores.md. ``allowed_roots``: other folders whose
            files the table may refer to, such as the source of a shallow clone; files outside the table's own folder
            are refused otherwise. They are only read: no verb writes or deletes there. Local ones are absolute paths,
            separated by ``os.pathsep`` (``:``), those of S3 are locations, separated by spaces.

    Raises:
        InvalidArgumentError: an empty location, a scheme without a store here, options nobody reads, S3 without boto3.
    """
    text = os.fspath(table_uri) if isinstance(table_uri, str | os.PathLike) else ""
    if not text or "\x00" in text:
        raise InvalidArgumentError(f"{table_uri!r} is no table location", hint="Give a path or a file: URI")
    scheme = urlsplit(text).scheme if ":" in text.split("/", 1)[0] else ""
    if scheme == "file":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise InvalidArgumentError(f"the host {parts.netloc!r} in {text!r}", hint="Write file:///path")
        text = unquote(parts.path)
    elif scheme in ("s3", "s3a"):
        return _s3(text, storage_options or {})
    elif scheme:
        raise InvalidArgumentError(
            f"no store for {scheme}: locations ({text!r})",
            hint="Tables on a local disk, a mounted file system and S3 are supported",
        )
    options = dict(storage_options or {})
    roots = _folders(options.pop("allowed_roots", ""), text)
    if options:
        raise InvalidArgumentError(
            f"storage options {sorted(options)} for a local table",
            table=text,
            hint="The local store takes allowed_roots only; leave the others out",
        )
    return LocalStore(str(Path(text).expanduser().absolute()), allowed_roots=roots)


def _s3(uri: str, options: dict[str, str]) -> ObjectStore:
    if importlib.util.find_spec("boto3") is None:
        raise InvalidArgumentError(
            f"{uri.partition(':')[0]}: locations need boto3, which is not installed",
            hint="Install it: pip install 'lakehouse[s3]'",
        )
    from lakehouse_lib.store.s3 import S3Store

    return S3Store.at(uri, options)


def _folders(listed: str, table: str) -> list[str]:
    if not isinstance(listed, str):
        raise InvalidArgumentError(
            f"the storage option allowed_roots is {listed!r}",
            table=table,
            hint=f"Write the folders as one text, separated by {os.pathsep!r}",
        )
    folders = [one for one in listed.split(os.pathsep) if one]
    for one in folders:
        if not Path(one).is_absolute() or ".." in Path(one).parts or "\x00" in one:
            raise InvalidArgumentError(
                f"the storage option allowed_roots names {one!r}", table=table, hint="Give absolute paths of folders"
            )
    return folders
