"""The rules for the fields of add, remove and cdc actions (PROTOCOL.md, section Actions), checked on whole columns.

Both parsers of a commit, ``action_lines`` and ``action_columns``, and the writer apply these rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import flags_of, literal, strings
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.actions import CHANGE_FILE_SCHEMA, FILE_SCHEMA, TOMBSTONE_SCHEMA

#: The columns of each kind of file action.
SCHEMAS: Mapping[str, pa.Schema] = {"add": FILE_SCHEMA, "remove": TOMBSTONE_SCHEMA, "cdc": CHANGE_FILE_SCHEMA}
#: The kinds of file actions in error messages.
ACTION_TEXTS: Mapping[str, str] = {"add": "an add action", "remove": "a remove action", "cdc": "a cdc action"}
#: The fields that must not be null.
REQUIRED: Mapping[str, frozenset[str]] = {
    "add": frozenset(("path", "partitionValues", "size", "modificationTime", "dataChange")),
    "remove": frozenset(("path", "dataChange")),
    "cdc": frozenset(("path", "partitionValues", "size")),
}
_REQUIRED_OF_VECTOR = ("storageType", "pathOrInlineDv", "sizeInBytes", "cardinality")
_NOTHING, _ZERO = literal("", pa.string()), literal(0, pa.int64())


class TornLineError(Exception):
    """A line that is not a valid action; ``number`` counts from 1. The caller adds the name of the file."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(number, what)
        self.number = number
        self.what = what


def check_files(kind: str, files: pa.Table) -> None:
    """Check that readers can parse files that are about to be written as ``kind`` actions.

    Args:
        files: of ``SCHEMAS[kind]``; null ``partitionValues`` are written as an empty map.

    Raises:
        TornLineError: readers could not parse a file; ``number`` is the row of the first such file, counted from 1.
    """
    for name in sorted(REQUIRED[kind] - {"partitionValues"}):
        if files[name].null_count:
            row = int(flags_of(files[name].is_null()).argmax())
            raise TornLineError(row + 1, f"is {ACTION_TEXTS[kind]} without {name}")
    check_values(kind, files, range(1, len(files) + 1))


def check_values(kind: str, files: pa.Table, numbers: Sequence[int]) -> None:
    """Check that no path is empty, no size negative and every deletion vector complete.

    Args:
        numbers: the line number of each row.

    Raises:
        TornLineError: a row breaks a rule; ``number`` is that of the first such row.
    """
    checks = [("path", pc.equal(files["path"], _NOTHING)), ("size", pc.less(files["size"], _ZERO))]
    if "deletionVector" in files.column_names and files["deletionVector"].null_count < len(files):
        vectors = files["deletionVector"].combine_chunks()
        fields = {name: pc.struct_field(vectors, name) for name in vectors.type.names}
        is_broken = pc.invert(pc.is_in(fields["storageType"], value_set=strings(["u", "i", "p"])))
        for name in _REQUIRED_OF_VECTOR:
            is_broken = pc.or_(is_broken, pc.is_null(fields[name]))
        for name in ("offset", "sizeInBytes", "cardinality"):
            is_broken = pc.or_(is_broken, pc.fill_null(pc.less(fields[name], _ZERO), literal(False, pa.bool_())))
        checks.append(("deletionVector", pc.and_(pc.is_valid(vectors), is_broken)))
    for name, wrong in checks:
        if (flags := flags_of(wrong)).any():
            row = int(flags.argmax())
            value = excerpt(files[name][row].as_py())
            raise TornLineError(numbers[row], f"is {ACTION_TEXTS[kind]} whose {name} is {value}")
