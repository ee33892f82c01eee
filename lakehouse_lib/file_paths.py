"""Paths of data files: from the log's form to the store's and back (PROTOCOL.md, section Add File).

In the log a path is a URI reference: relative to the table and percent-encoded, or absolute (``file:///x``, ``/x``).
In the store it is relative and decoded. One decoding, exactly: the log's ``a%2520b`` is the file ``a%20b``.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import PathOutsideTableError
from lakehouse_lib.store.base import ObjectStore

# What RFC 3986 allows unescaped in a path, but for the percent sign.
_SAFE = "/-._~!$&'()*+,;=:@"
_NOT_PLAIN = r"%|^/|^[A-Za-z][A-Za-z0-9+.-]*:|(^|/)\.\.?(/|$)|//"
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def encode(path: str) -> str:
    """A store path as the log wants it."""
    encoded = quote(path, safe=_SAFE)
    # A first segment with a colon would read as a scheme.
    return f"./{encoded}" if _SCHEME.match(encoded) else encoded


def decode(path: str, store: ObjectStore) -> str:
    """A log path as a store path.

    Raises:
        PathOutsideTableError: the path points out of the table's folder.
    """
    outside = PathOutsideTableError(
        f"the log refers to {path!r}, which is outside the table's folder",
        table=store.root,
        hint="Files of another folder (a shallow clone, a tampered log) are refused",
    )
    text = path
    if _SCHEME.match(text):
        parts = urlsplit(text)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise outside
        text = parts.path
    text = unquote(text)
    if text.startswith("/"):
        text = posixpath.normpath("/" + text.lstrip("/"))
        root = store.root.rstrip("/")
        if not text.startswith(root + "/"):
            raise outside
        text = text[len(root) + 1 :]
    if ".." in text.split("/") or "\x00" in text:
        raise outside
    text = posixpath.normpath(text)
    if text in (".", ""):
        raise outside
    return text


def decode_all(paths: pa.Array, store: ObjectStore) -> pa.Array:
    """``decode`` of a column: most paths are plain and pass untouched."""
    if isinstance(paths, pa.ChunkedArray):
        paths = paths.combine_chunks()
    odd = pc.match_substring_regex(paths, _NOT_PLAIN)
    if not pc.any(odd, min_count=0).as_py():
        return paths
    mended = pa.array([decode(path, store) for path in paths.filter(odd).to_pylist()], type=paths.type)
    return pc.replace_with_mask(paths, odd, mended)


def canonical(paths: pa.Array, store: ObjectStore) -> pa.Array:
    """A column of log paths in one canonical form, so that two spellings of a file compare equal.

    Paths that leave the table stay as they are: only what is read or deleted is refused, by ``decode``.
    """
    if isinstance(paths, pa.ChunkedArray):
        paths = paths.combine_chunks()
    odd = pc.match_substring_regex(paths, _NOT_PLAIN)
    if not pc.any(odd, min_count=0).as_py():
        return paths

    def one(path: str) -> str:
        try:
            return decode(path, store)
        except PathOutsideTableError:
            return path

    mended = pa.array([one(path) for path in paths.filter(odd).to_pylist()], type=paths.type)
    return pc.replace_with_mask(paths, odd, mended)
