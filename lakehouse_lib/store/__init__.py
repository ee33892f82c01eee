"""Where a table lives. ``open_store`` picks the implementation from the location."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store.base import ObjectMeta, ObjectStore
from lakehouse_lib.store.local import LocalStore
from lakehouse_lib.store.local_locations import LOCAL
from lakehouse_lib.store.schemes import kind_of, kinds, register
from lakehouse_lib.store.uris import scheme_of, shown

__all__ = ["LocalStore", "ObjectMeta", "ObjectStore", "open_store"]

register(LOCAL)


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
            or a fragment; unknown options; S3 without boto3. A location that may hold a secret is not shown.
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
        raise InvalidArgumentError(  # what they are may hold a secret
            f"storage options of type {type(storage_options).__name__} ({shown(text)})",
            hint="Give a dictionary from names to text, or leave them out",
            code="DELTA_INVALID_STORAGE_OPTION",
        )
    kind = kind_of(text)
    if kind is None:
        schemes = ", ".join(f"{store_kind.schemes[0]}:" for store_kind in kinds())
        raise InvalidArgumentError(
            f"no store for {scheme_of(text)}: locations ({shown(text)})",
            hint=f"Tables are at a path, or at {schemes} locations",
            code="DELTA_UNSUPPORTED_STORE",
        )
    return kind.opener(text, storage_options or {})
