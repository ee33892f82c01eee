"""Locations as URIs: what they are made of, and what of one a message may quote."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from lakehouse_lib.errors import InvalidArgumentError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/+")
#: A colon in the host is before a port, or else maybe between an access key and its secret.
_PRIVATE = re.compile(r"[@?#]|%40|^[^/]*:(?!\d{1,5}(?:/|\Z)|\Z)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Uri(NamedTuple):
    """A location taken apart.

    Attributes:
        scheme: in lower case; "" of a path.
        host: as it is written, a port included; "" where there is none.
        path: percent-encoding undone, once.
    """

    scheme: str
    host: str
    path: str


def scheme_prefix(location: str) -> str:
    """What of an absolute location is before its first path step, ``s3:/`` of ``s3://bucket/x``; "" of a path."""
    scheme, separator, _ = location.partition("://")
    return f"{scheme}:/" if separator and not location.startswith("/") else ""


def shown(text: str) -> str:
    """A location or an endpoint for a message: quoted, or its scheme alone where the rest may hold a secret.

    A secret key may have slashes in it, so it is not just the host that is looked at; a query may be a signature.
    """
    scheme = _SCHEME.match(text)
    if not _PRIVATE.search(text[scheme.end() :] if scheme else text):
        return repr(text)
    return f"{scheme[1]}://…" if scheme else "…"


def scheme_of(location: str) -> str:
    """The scheme in lower case; "" of a path.

    Raises:
        InvalidArgumentError: brackets around what is not a valid address.
    """
    if ":" not in location.split("/", 1)[0]:
        return ""
    parts = split_or_none(location)
    if parts is None:
        raise _refused(location, "is no URI", "Write file:///path or s3://bucket/folder", None)
    return parts.scheme


def parse(location: str, table: str | None = None) -> Uri:
    """The location taken apart. What would be dropped on the way is refused, or two locations were one table.

    Args:
        table: the table concerned, for errors.

    Raises:
        InvalidArgumentError: credentials, a query or a fragment (empty ones, too), a control character that is not
            percent-encoded, a NUL, bytes that are no UTF-8, brackets around what is not a valid address.
    """
    parts = split_or_none(location)
    if parts is None:
        raise _refused(location, "is no URI", "Write file:///path or s3://bucket/folder", table)
    if "@" in parts.netloc or (":" in parts.netloc and "@" in location):
        raise _refused(
            location,
            "has credentials in it",
            "Take them out; those of S3 are storage options: access_key_id and secret_access_key",
            table,
        )
    if "?" in location or "#" in location:
        raise _refused(
            location, "has a query or a fragment", "A table has none; write ? and # in a name as %3F and %23", table
        )
    if _CONTROL.search(location):
        raise _refused(location, "has a control character in it", "Take it out, or percent-encode it, as in %0A", table)
    path = _unquoted(parts.path)
    if path is None or not is_utf8(location):
        raise _refused(location, "is no UTF-8", "Percent-encode the bytes of the name in UTF-8", table)
    if "\x00" in path:
        raise _refused(location, "has a NUL in it", "Take %00 out", table)
    return Uri(parts.scheme, parts.netloc, path)


def split_or_none(text: str) -> SplitResult | None:
    """``urlsplit``; None where it raises, for its message may quote what ``shown`` does not."""
    try:
        return urlsplit(text)
    except ValueError:
        return None


def is_utf8(text: str) -> bool:
    """Whether it can be written down: a lone surrogate (a byte of a file name that is not valid UTF-8) cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unquoted(path: str) -> str | None:
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        return None


def _refused(location: str, why: str, hint: str, table: str | None) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the location {shown(location)} {why}", table=table, hint=hint, code="DELTA_INVALID_TABLE_LOCATION"
    )
