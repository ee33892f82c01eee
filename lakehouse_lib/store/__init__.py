"""Stores of tables. ``open_store`` chooses the implementation from the location."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store.base import ObjectMeta, ObjectStore, PathLimits, SparkAccess
from lakehouse_lib.store.local import LocalStore
from lakehouse_lib.store.local_locations import LOCAL
from lakehouse_lib.store.schemes import kind_of, kinds, register
from lakehouse_lib.store.uris import location_text, scheme_of

__all__ = ["LocalStore", "ObjectMeta", "ObjectStore", "PathLimits", "SparkAccess", "open_store"]

register(LOCAL)


def open_store(table_uri: str | os.PathLike[str], storage_options: dict[str, str] | None = None) -> ObjectStore:
    """The store of the table at ``table_uri``: a local path, a ``file:`` URI, or ``s3://bucket/folder``.

    Nothing is read or created.

    Args:
        table_uri: a path (a relative one starts at the working folder), ``file:///...``, ``s3://...`` or ``s3a://...``.
            A path is taken literally, except that a leading ``~`` is the home folder; in a URI percent-encoding is
            decoded. In a path with ``..``, symbolic links are resolved.
        storage_options: options of the store; docs/stores.md lists those of S3. ``allowed_roots`` has other folders
            whose files the table may refer to, such as the source of a shallow clone. All other files outside the
            table's folder are refused. No verb writes or deletes in these folders. Local folders are absolute paths,
            separated by ``os.pathsep`` (``:``). S3 locations are separated by spaces.

    Raises:
        InvalidArgumentError: the location is empty, has a scheme without a store, or is a URI with credentials, a query
            or a fragment; an option is unknown; boto3 is missing. A location that may hold a secret is not shown.
    """
    text = os.fspath(table_uri) if isinstance(table_uri, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        what = "an empty text" if text == "" else f"a value of type {type(table_uri).__name__}"
        raise InvalidArgumentError(
            f"{what} is not a table location",
            hint="Give a path, a file: URI or s3://bucket/folder",
            code="DELTA_INVALID_TABLE_LOCATION",
        )
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise InvalidArgumentError(  # their values may be secret
            f"storage_options is of type {type(storage_options).__name__}; expected a dictionary "
            f"({location_text(text)})",
            hint="Give a dictionary of names to text, or leave it out",
            code="DELTA_INVALID_STORAGE_OPTION",
        )
    kind = kind_of(text)
    if kind is None:
        schemes = ", ".join(f"{store_kind.schemes[0]}:" for store_kind in kinds())
        raise InvalidArgumentError(
            f"the scheme {scheme_of(text)}: of the location {location_text(text)} has no store",
            hint=f"Give a path, or a location of one of {schemes}",
            code="DELTA_UNSUPPORTED_STORE",
        )
    return kind.opener(text, storage_options or {})
