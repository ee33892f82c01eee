"""Conversion of data file paths between the log and the store (PROTOCOL.md, section Add File).

In the log a path is a URI reference: relative to the table and percent-encoded, or absolute (``file:///x``, ``/x``).
A store path is decoded, and relative to the table's folder. A file in one of the ``allowed_roots`` (a shallow clone's
files are in its source's folder) has an absolute store path: ``/x``, or ``scheme://host/x`` in a store whose locations
have a scheme. A path is decoded exactly once: ``a%2520b`` in the log is the file ``a%20b``.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import as_array, strings
from lakehouse_lib.errors import PathOutsideTableError
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.uris import SCHEME, scheme_prefix

#: The folder of change files, below the table's folder.
CHANGE_DATA = "_change_data"

# Characters that RFC 3986 allows unescaped in a path, except the percent sign.
_SAFE = "/-._~!$&'()*+,;=:@"
_SCHEME = f"^{SCHEME}:"
_NOT_PLAIN = rf"%|^/|{_SCHEME}|(^|/)\.\.?(/|$)|//|/$|\x00|^$"
# file:/x, file:///x and file://localhost/x are local; another authority is another machine.
_LOCAL = r"^(?i:file):(?://(?i:localhost)?)?(/)"
_OTHER_HOST = r"^(?i:file)://[^/]"
_LOCAL_HOST = r"^(?i:file)://(?i:localhost)/"
_NO_ESCAPE = r"%([^0-9A-Fa-f]|[0-9A-Fa-f]([^0-9A-Fa-f]|$)|$)"
_SLASH, _DOT, _PERCENT, _COLON, _NUL = b"/.%:\0"
_BLOCK_BYTES = 1 << 20
_MOST_PASSES = 60  # with more, decoding each path by itself is as fast


def encode(path: str) -> str:
    """A relative store path in the form of the log."""
    encoded = quote(path, safe=_SAFE)
    # A first segment with a colon would be parsed as a scheme.
    return f"./{encoded}" if re.match(_SCHEME, encoded) else encoded


def encode_any(path: str, store: ObjectStore) -> str:
    """A store path in the form of the log; an absolute path keeps its scheme."""
    prefix = scheme_prefix(store.root)
    is_location = bool(prefix) and path.startswith(f"{prefix}/")
    return prefix + encode(path.removeprefix(prefix)) if is_location else encode(path)


def decode(path: str, store: ObjectStore) -> str:
    """A path of the log as a store path; errors as ``decode_all``."""
    decoded: str = decode_all(strings([path]), store)[0].as_py()
    return decoded


def decode_all(paths: pa.Array, store: ObjectStore, *, version: int | None = None) -> pa.Array:
    """A column of paths of the log as store paths. If no path needs a change, the column is not copied.

    Args:
        version: the version of the table, for the error.

    Raises:
        PathOutsideTableError: a path is outside the table's folder and the folders that ``store`` allows.
    """
    form = _canonical(paths, store)
    if form.refused is not None:
        refused = pc.or_(form.refused, _outside(form.paths, store))
        if pc.any(refused, min_count=0).as_py():
            path = form.originals.filter(refused)[0].as_py()
            raise PathOutsideTableError(
                f"the log refers to {path!r}, which is outside the table's folder",
                table=store.root,
                version=version,
                hint="Files of another folder (a shallow clone, a tampered log) are refused; to read them, name their "
                "folder in the storage option allowed_roots",
            )
    return form.as_array()


def canonical(paths: pa.Array, store: ObjectStore) -> pa.Array:
    """A column of paths of the log in canonical form, so that different spellings of a file are equal.

    The canonical form is the store path. Paths outside the table are converted, too. ``decode_all`` refuses them,
    because callers read or delete its paths. Paths of other stores are not changed.
    """
    return _canonical(paths, store).as_array()


def are_absolute(paths: pa.Array | pa.ChunkedArray, store: ObjectStore) -> pa.Array:
    """A mask of the store paths that are not relative to the table's folder."""
    prefix = scheme_prefix(store.root)
    on_disk = pc.starts_with(paths, "/")
    return pc.or_(on_disk, pc.starts_with(paths, f"{prefix}/")) if prefix else on_disk


def absolute(paths: pa.Array, store: ObjectStore) -> pa.Array:
    """A column of store paths as absolute paths of the operating system, or as locations if ``root`` is a location."""
    paths = as_array(paths)
    root, slash = strings([store.root.rstrip("/"), "/"])
    joined = pc.binary_join_element_wise(root, paths, slash)
    is_absolute = are_absolute(paths, store)
    # Usually no path is absolute. Then the paths are not copied, of which there may be a million.
    return pc.if_else(is_absolute, paths, joined) if pc.any(is_absolute).as_py() else joined


class _Canonical(NamedTuple):
    """The canonical paths of a column.

    Attributes:
        all_paths: the column as it is in the log.
        needs_rewrite: a mask of the paths that may not be in canonical form.
        originals: these paths as in the log.
        paths: these paths in canonical form.
        refused: a mask of these paths that have no canonical form (another store, ``..``, NUL, a folder); None: no path
            was rewritten, and only ``all_paths`` is used.
    """

    all_paths: pa.Array
    needs_rewrite: pa.Array
    originals: pa.Array
    paths: pa.Array
    refused: pa.Array | None

    def as_array(self) -> pa.Array:
        if self.refused is None:
            return self.all_paths
        return pc.replace_with_mask(
            self.all_paths, self.needs_rewrite, pc.if_else(self.refused, self.originals, self.paths)
        )


def _canonical(paths: pa.Array | pa.ChunkedArray, store: ObjectStore) -> _Canonical:
    all_paths = as_array(paths)
    if _are_plain(all_paths):
        return _Canonical(all_paths, all_paths, all_paths, all_paths, None)
    needs_rewrite = pc.match_substring_regex(all_paths, _NOT_PLAIN)
    if not pc.any(needs_rewrite, min_count=0).as_py():
        return _Canonical(all_paths, needs_rewrite, all_paths, all_paths, None)
    originals = all_paths.filter(needs_rewrite)
    prefix = scheme_prefix(store.root)
    without_scheme = _without_store_scheme(originals, store) if prefix else _without_file_scheme(originals)
    has_other_scheme = pc.match_substring_regex(without_scheme, _SCHEME)
    text = pc.replace_substring_regex(unquote_all(without_scheme), "/+", "/")
    text = pc.replace_substring_regex(text, r"/(\./)+", "/")
    text = pc.replace_substring_regex(text, r"^\./|/\.$", "")
    root_prefix = f"{store.root.removeprefix(prefix).rstrip('/')}/"
    text = pc.if_else(pc.starts_with(text, root_prefix), pc.utf8_slice_codeunits(text, len(root_prefix)), text)
    is_invalid = pc.match_substring_regex(text, r"(^|/)\.\.(/|$)|\x00|/$|^\.?$")
    if prefix:
        text = pc.replace_substring_regex(text, "^/", f"{prefix}/")
    return _Canonical(all_paths, needs_rewrite, originals, text, pc.or_(has_other_scheme, is_invalid))


def _without_file_scheme(paths: pa.Array) -> pa.Array:
    """Paths in the log of a local table, without the scheme if they are local."""
    return pc.if_else(
        pc.and_not(pc.match_substring_regex(paths, _OTHER_HOST), pc.match_substring_regex(paths, _LOCAL_HOST)),
        paths,
        pc.replace_substring_regex(paths, _LOCAL, r"\1"),
    )


def _without_store_scheme(paths: pa.Array, store: ObjectStore) -> pa.Array:
    """Paths in the log of a table whose location has a scheme; absolute paths begin with the host.

    ``/x`` is on the table's own host (RFC 3986). A writer may have used any of the store's schemes for an object.
    """
    host = store.root.partition("://")[2].split("/")[0]
    schemes = "|".join(map(re.escape, store.schemes))
    paths = pc.replace_substring_regex(paths, "^/", f"/{host}/")
    return pc.replace_substring_regex(paths, rf"^(?i:{schemes})://([^/]+/)", r"/\1")


def _are_plain(paths: pa.Array) -> bool:
    """Whether all paths are certainly in canonical form. Checks all bytes at once, faster than a regular expression."""
    if paths.type != pa.string() or paths.null_count or not len(paths):
        return False
    _, offsets, data = paths.buffers()
    ends = np.frombuffer(offsets, np.int32)[paths.offset : paths.offset + len(paths) + 1]
    if data is None:
        return False
    text = np.frombuffer(data, np.uint8)
    if (ends[:-1] == ends[1:]).any() or _are_odd_starts(text[ends[:-1]]):
        return False
    if (text[ends[1:] - 1] == _SLASH).any():
        return False
    for start in range(int(ends[0]), int(ends[-1]), _BLOCK_BYTES):
        block = text[start : min(start + _BLOCK_BYTES + 1, int(ends[-1]))]
        after_slash = block[1:][block[:-1] == _SLASH]
        if any((block == byte).any() for byte in (_PERCENT, _COLON, _NUL)) or _are_odd_starts(after_slash):
            return False
    return True


def _are_odd_starts(characters: NDArray[np.uint8]) -> bool:
    """Whether a first character of a path or segment is a slash or a dot, so that the path may need a rewrite."""
    return bool(((characters == _SLASH) | (characters == _DOT)).any())


def _outside(paths: pa.Array, store: ObjectStore) -> pa.Array:
    """A mask of the store paths that are absolute and not below an allowed folder."""
    outside = are_absolute(paths, store)
    for root in store.allowed_roots:
        outside = pc.and_not(outside, pc.starts_with(paths, f"{root.rstrip('/')}/"))
    return outside


def unquote_all(paths: pa.Array) -> pa.Array:
    """``urllib.parse.unquote`` of each path, with one pass over all paths for each different escape."""
    if not pc.any(pc.match_substring(paths, "%"), min_count=0).as_py():
        return paths
    if pc.any(pc.match_substring_regex(paths, _NO_ESCAPE), min_count=0).as_py():
        return _unquoted_each(paths)  # the result of one pass could look like an escape to the next pass
    pieces = pc.list_flatten(pc.split_pattern(paths, "%"))
    codes = pc.unique(pc.utf8_slice_codeunits(pieces, 0, 2))
    codes = codes.filter(pc.match_substring_regex(codes, "^[0-9A-Fa-f]{2}$")).to_pylist()
    if len(codes) > _MOST_PASSES:
        return _unquoted_each(paths)
    # The percent sign last, because it makes text that looks like an escape.
    codes.sort(key=lambda code: code == "25")
    data = paths.cast(pa.binary())
    for code in codes:
        data = pc.replace_substring(data, f"%{code}".encode(), bytes.fromhex(code))
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return _unquoted_each(paths)


def _unquoted_each(paths: pa.Array) -> pa.Array:
    return strings([None if path is None else unquote(path) for path in paths.to_pylist()]).cast(paths.type)
