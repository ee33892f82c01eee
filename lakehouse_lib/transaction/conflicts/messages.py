"""Short descriptions of commits, reads and changes for error messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lakehouse_lib.errors import InvalidSchemaError
from lakehouse_lib.json_text import excerpt, first_texts
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.schema.column_mapping import field_id

if TYPE_CHECKING:
    from lakehouse_lib.expressions import Predicate

_MOST_NAMES = 8
_LONGEST_PREDICATE = 500


def describe_commit(commit: CommitActions) -> str:
    """The operation and version of a commit, such as ``WRITE of version 7``."""
    operation = commit.info.get("operation")
    is_named = isinstance(operation, str) and 0 < len(operation) <= 100
    return f"{operation if is_named else 'a commit'} of version {commit.version}"


def metadata_change(before: Metadata, after: Metadata) -> str:
    """The differences between two metadata actions: id, columns, partitioning, names of properties."""
    parts = [f"changed the table's id from {excerpt(before.id)} to {excerpt(after.id)}"] * (before.id != after.id)
    if before.schema_string != after.schema_string:
        parts += _schema_change(before.schema_string, after.schema_string)
    if before.partition_columns != after.partition_columns:
        columns, new_columns = _first_names(before.partition_columns), _first_names(after.partition_columns)
        parts.append(f"changed the partitioning from ({columns}) to ({new_columns})")
    parts += _property_change(before.configuration, after.configuration)
    for what in ("name", "description"):
        if getattr(before, what) != getattr(after, what):
            parts.append(f"changed the table's {what} to {excerpt(getattr(after, what))}")
    if (before.format_provider, before.format_options) != (after.format_provider, after.format_options):
        parts.append("changed the format of the files")
    return ", ".join(parts) or "wrote the same metadata again"


def protocol_change(before: Protocol, after: Protocol) -> str:
    """The differences between two protocol actions: versions and features."""
    return f"changed the protocol from {_protocol(before)} to {_protocol(after)}"


def describe_read(read: Predicate | None) -> str:
    """A predicate of the read set as text, cut after 500 characters; None: the whole table."""
    if read is None:
        return "the whole table"
    text = read.text
    return f"the predicate {text if len(text) <= _LONGEST_PREDICATE else text[:_LONGEST_PREDICATE] + ' …'}"


def count_files(count: int) -> str:
    """A number of files as text, such as ``1 file`` or ``3 files``."""
    return f"{count} file{'s' * (count != 1)}"


def _schema_change(before: str, after: str) -> list[str]:
    try:
        old, new = _columns(before), _columns(after)
    except InvalidSchemaError:
        return ["changed the schema"]
    by_id = {number: name for name, field in new.items() if (number := field_id(field)) is not None}
    old_names = [name for name in old if name not in new]
    new_names = {
        name: by_id[number]
        for name in old_names
        if (number := field_id(old[name])) in by_id and by_id[number] not in old
    }
    added = [name for name in new if name not in old and name not in new_names.values()]
    dropped = [name for name in old_names if name not in new_names]
    changed = [name for name in old if name in new and old[name] != new[name]]
    changes = [
        f"{verb} the column{'s' * (len(names) != 1)} {_first_names(names)}"
        for verb, names in (("added", added), ("dropped", dropped), ("changed", changed))
        if names
    ]
    if new_names:
        pairs = [f"{excerpt(name)} to {excerpt(new_name)}" for name, new_name in new_names.items()]
        changes.append("renamed " + first_texts(pairs, _MOST_NAMES))
    return changes or ["changed the order of the columns"]


def _columns(schema_string: str) -> Mapping[str, Field]:
    return {field.name: field for field in Schema.from_json(schema_string).fields}


def _property_change(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    changed = [key for key in after if before.get(key) != after[key]]
    unset = [key for key in before if key not in after]
    return [f"{verb} {_first_names(sorted(keys))}" for verb, keys in (("set", changed), ("unset", unset)) if keys]


def _protocol(protocol: Protocol) -> str:
    def side(name: str, version: int, features: Iterable[str] | None) -> str:
        return f"{name} {version}" + (f" ({_first_names(sorted(features))})" if features else "")

    reader = side("reader", protocol.min_reader_version, protocol.reader_features)
    return f"{reader}, {side('writer', protocol.min_writer_version, protocol.writer_features)}"


def _first_names(names: Iterable[str]) -> str:
    return first_texts([excerpt(name) for name in names], _MOST_NAMES)
