"""Files whose folder names agree with the log, so that Spark can take partition values from the names.

The log is authoritative. Folders of other writers may not be named by partition values (random prefixes, files added by
hand), or have different values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import is_true
from lakehouse_lib.protocol import file_paths, partition_values
from lakehouse_lib.schema import DataType
from lakehouse_lib.store import ObjectStore

# For these types, Spark reads a text in a folder name as the value that the same text has in the log. The settings of
# the session do not matter.
_SPELLED_ALIKE = {"string", "byte", "short", "integer", "long", "date", "boolean"}
# Spark's pattern: a base folder that does not end in key=value, then key=value folders, then the file's name.
_FOLDERS = r"^(?P<base>(?:.*/)?[^/=]*)(?P<keys>(?:/[^/=]+=[^/]+)+)/[^/]*$"


def branches(
    files: pa.Table, store: ObjectStore, partition_types: Mapping[str, DataType], columns: Sequence[str]
) -> pa.DictionaryArray:
    """The branch of each file: its base folder and the keys of its folders; null if the folders differ from the log.

    Files of one branch can be scanned together, with partition values from their folders.

    Args:
        files: a files table with store paths.
        partition_types: the types of the partition columns, by their keys in ``partitionValues``.
        columns: the other columns of the scan; a folder key of the same name would hide the column.
    """
    no_branch = pa.nulls(len(files), pa.string())
    if any(str(kind) not in _SPELLED_ALIKE for kind in partition_types.values()):
        return no_branch.dictionary_encode()
    paths = files["path"].combine_chunks()
    inside = pc.invert(file_paths.are_absolute(paths, store))
    parts = pc.extract_regex(pc.binary_join_element_wise(store.root, paths, "/"), _FOLDERS)
    base, spelled = pc.struct_field(parts, "base"), pc.struct_field(parts, "keys")
    keys = pc.replace_substring_regex(spelled, "=[^/]*", "").dictionary_encode()
    column_names = {name.lower() for name in columns}
    fits = [_fits(folder_keys, partition_types, column_names) for folder_keys in keys.dictionary.to_pylist()]
    agrees = pc.and_(inside, is_true(pa.array(fits, pa.bool_()).take(keys.indices)))
    for name in partition_types:
        folder = pc.struct_field(pc.extract_regex(spelled, f"/{re.escape(name)}=(?P<value>[^/]*)"), "value")
        logged = pc.map_lookup(files["partitionValues"].combine_chunks(), pa.scalar(name), "first")
        logged = pc.if_else(pc.equal(logged, ""), pa.scalar(None, pa.string()), logged)
        value = _unescaped(folder)
        is_equal = pc.or_(is_true(pc.equal(value, logged)), pc.and_(pc.is_null(value), pc.is_null(logged)))
        agrees = pc.and_(agrees, pc.and_(pc.is_valid(folder), is_equal))
    shared = pc.binary_join_element_wise(base, keys.dictionary.take(keys.indices), "//")
    return pc.if_else(agrees, shared, no_branch).dictionary_encode()


def _fits(keys: str | None, partition_types: Mapping[str, DataType], column_names: set[str]) -> bool:
    """Whether folder keys contain each partition column once, and no other column of the scan."""
    if keys is None:
        return False
    names = keys[1:].split("/")
    other_names = {key.lower() for key in names if key not in partition_types}
    return len(set(names)) == len(names) and set(partition_types) <= set(names) and not other_names & column_names


def _unescaped(folders: pa.Array) -> pa.Array:
    """The values that Spark reads from folder names: ``%XX`` is the character with this code, not a byte of UTF-8."""
    coded = folders.dictionary_encode()
    values = coded.dictionary
    values = pc.if_else(pc.equal(values, partition_values.HIVE_NULL), pa.scalar(None, pa.string()), values)
    escaped = np.flatnonzero(is_true(pc.match_substring(values, "%")).to_numpy(zero_copy_only=False))
    if len(escaped):
        texts = values.to_pylist()
        for index in escaped:
            texts[index] = re.sub("%([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), texts[index])
        values = pa.array(texts, pa.string())
    return values.take(coded.indices)
