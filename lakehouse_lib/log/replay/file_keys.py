"""The primary key of a file in the log: its path and its deletion vector (PROTOCOL.md, Action Reconciliation)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, literal
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.store import ObjectStore

KEY_COLUMNS = ("path", "deletionVector")

# As Arrow values, because Arrow imports pandas to convert Python values.
_NOTHING, _AT, _NUL = (literal(text, pa.string()) for text in ("", "@", "\0"))


def file_keys(files: pa.Table, store: ObjectStore) -> pa.Array:
    """For each file its canonical path and the unique id of its deletion vector, if it has one, as one string.

    Args:
        files: has the columns ``KEY_COLUMNS``; ``deletionVector`` may be missing if no file has one.
    """
    paths = file_paths.canonical(files["path"], store)
    if "deletionVector" not in files.column_names:
        return paths
    vectors = as_array(files["deletionVector"])
    if vectors.null_count == len(vectors):
        return paths
    kind = pc.struct_field(vectors, "storageType")
    inline = pc.struct_field(vectors, "pathOrInlineDv")
    offset = pc.struct_field(vectors, "offset").cast(pa.string())
    with_offset = pc.binary_join_element_wise(kind, inline, _AT, offset, _NOTHING)
    without = pc.binary_join_element_wise(kind, inline, _NOTHING)
    suffix = pc.fill_null(pc.coalesce(with_offset, without), _NOTHING)
    return pc.if_else(pc.equal(suffix, _NOTHING), paths, pc.binary_join_element_wise(paths, suffix, _NUL))


def key_paths(keys: pa.Array) -> pa.Array:
    """The canonical paths of keys."""
    return pc.replace_substring_regex(keys, "\\x00.*", "")
