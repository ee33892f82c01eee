"""Parsing of locations as URIs, and their text in messages without secrets."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from lakehouse_lib.errors import InvalidArgumentError

#: The scheme of a URI, as the text of a regular expression (RFC 3986, section 3.1).
SCHEME = "[A-Za-z][A-Za-z0-9+.-]*"
_SCHEME = re.compile(rf"({SCHEME}):/+")
#: Text that may be, or precede, a secret. A colon in the host that does not precede a port may separate an access key
#: from its secret.
_PRIVATE = re.compile(r"[@?#]|%40|^[^/]*:(?!\d{1,5}(?:/|\Z)|\Z)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Uri(NamedTuple):
    """The parts of a location.

    Attributes:
        scheme: in lower case; "" for a path.
        host: as written, with a port; "" if there is none.
        path: with percent-encoding decoded, once.
    """

    scheme: str
    host: str
    path: str


def scheme_prefix(location: str) -> str:
    """The part of an absolute location before its first path step, ``s3:/`` of ``s3://bucket/x``; "" for a path."""
    scheme, separator, _ = location.partition("://")
    return f"{scheme}:/" if separator and not location.startswith("/") else ""


def location_text(text: str) -> str:
    """A location or an endpoint for a message: quoted, or only its scheme if the text may contain a secret.

    The whole location is checked, because a secret key may have slashes in it, and a query may be a signature.
    """
    scheme = _SCHEME.match(text)
    if not _PRIVATE.search(text[scheme.end() :] if scheme else text):
        return repr(text)
    return f"{scheme[1]}://…" if scheme else "…"


def scheme_of(location: str) -> str:
    """The scheme in lower case; "" for a path.

    Raises:
        InvalidArgumentError: the location has brackets around an invalid IPv6 address.
    """
    if ":" not in location.split("/", 1)[0]:
        return ""
    parts = split_or_none(location)
    if parts is None:
        raise _location_error(location, "is not a URI", "Write file:///path or s3://bucket/folder", None)
    return parts.scheme


def parse(location: str, table: str | None = None) -> Uri:
    """The parts of a location.

    Args:
        table: the table's location, for errors.

    Raises:
        InvalidArgumentError: the location has credentials, a query or a fragment (even if empty), a control character
            that is not percent-encoded, a NUL, bytes that are not UTF-8, or brackets around an invalid IPv6 address.
    """
    parts = split_or_none(location)
    if parts is None:
        raise _location_error(location, "is not a URI", "Write file:///path or s3://bucket/folder", table)
    if "@" in parts.netloc or (":" in parts.netloc and "@" in location):
        raise _location_error(
            location,
            "has credentials in it",
            "Take them out; credentials of S3 are the storage options access_key_id and secret_access_key",
            table,
        )
    if "?" in location or "#" in location:
        raise _location_error(
            location, "has a query or a fragment", "Take it out; write ? and # in a name as %3F and %23", table
        )
    if _CONTROL.search(location):
        raise _location_error(
            location, "has a control character in it", "Take it out, or percent-encode it, as in %0A", table
        )
    path = _unquoted(parts.path)
    if path is None or not is_utf8(location):
        raise _location_error(location, "is not UTF-8", "Percent-encode the bytes of the name in UTF-8", table)
    if "\x00" in path:
        raise _location_error(location, "has a NUL in it", "Take %00 out", table)
    return Uri(parts.scheme, parts.netloc, path)


def split_or_none(text: str) -> SplitResult | None:
    """The result of ``urlsplit``; None if the text is not a URI.

    The error of ``urlsplit`` is not raised, because its message may quote a secret that ``location_text`` leaves out.
    """
    try:
        return urlsplit(text)
    except ValueError:
        return None


def is_utf8(text: str) -> bool:
    """Whether the text can be encoded in UTF-8.

    A lone surrogate cannot be encoded: Python uses it for a byte of a file name that is not valid UTF-8.
    """
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


def _location_error(location: str, why: str, hint: str, table: str | None) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the location {location_text(location)} {why}", table=table, hint=hint, code="DELTA_INVALID_TABLE_LOCATION"
    )
