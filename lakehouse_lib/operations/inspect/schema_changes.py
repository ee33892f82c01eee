"""The changes of a table's schema: which version added, dropped, renamed or otherwise changed which column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError, ObjectNotFoundError, VersionNotFoundError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log.commits.commit_file import read_beginning
from lakehouse_lib.log.replay.table_state import load_state
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.protocol.actions import Metadata, parse_line
from lakehouse_lib.schema import ArrayType, DataType, Field, MapType, PrimitiveType, Schema, StructType
from lakehouse_lib.schema.column_mapping import physical_name
from lakehouse_lib.schema.type_widening import is_widening
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests

#: Of a commit file with more bytes, only this many bytes are read. Writers put the metaData action before file actions.
_BEGINNING = 1 << 20
_MARK = b'"metaData"'

Kind = Literal["added", "dropped", "renamed", "widened", "retyped", "nullable", "not null"]


@dataclass(frozen=True)
class SchemaChange:
    """A change of a column, or of a field inside it.

    Attributes:
        column: the dotted path of the column, such as ``address.city``; for a dropped column the path before the
            change.
        kind: the kind of change. "retyped": the new type does not hold all values of the old type.
        before, after: the names of a renamed column; the types of a column that was added, dropped, widened or retyped.
            None: the column did not exist, or only its nullability changed.
        version: the version that made the change; None: unknown, because the commit's metaData action was not read.
    """

    column: str
    kind: Kind
    before: str | None = None
    after: str | None = None
    version: int | None = None


def schema_changes(snapshot: Snapshot, most_commits: int) -> list[SchemaChange]:
    """The changes of the schema in the newest commits up to a version, newest first.

    Version 0 is not a change. If the schema before a change can no longer be read, the change is left out.

    Args:
        most_commits: the maximum number of commits that are searched.

    Raises:
        InvalidArgumentError: ``most_commits`` is not a positive whole number.
    """
    store = snapshot.store
    if type(most_commits) is not int or most_commits < 1:
        raise InvalidArgumentError(
            f"most_commits is {excerpt(most_commits)}; expected a positive number",
            table=store.root,
            hint="Leave most_commits out to search 100 commits",
        )
    commits = [commit for commit in list_commits(store) if commit.version <= snapshot.version][-most_commits:]
    changes: list[SchemaChange] = []
    earlier: Schema | None = None
    for commit, metadata in zip(
        commits, map_requests(store, lambda commit: _metadata(store, commit), commits), strict=True
    ):
        if metadata is None:
            continue
        version = commit.version
        schema = Schema.from_json(metadata.schema_string)
        before = _schema_before(store, version) if earlier is None else earlier
        if before is not None:
            changes += [replace(change, version=version) for change in changes_between(before, schema)]
        earlier = schema
    if earlier is not None:
        changes += changes_between(earlier, snapshot.schema)
    return changes[::-1]


def changes_between(before: StructType, after: StructType) -> list[SchemaChange]:
    """The changes from a schema to a later one, without versions.

    A column of ``after`` is the column of ``before`` with the same physical name, else with the same name. So without
    column mapping, a renamed column is a dropped and an added column.
    """
    return list(_changes("", before, after))


def _changes(parent: str, before: StructType, after: StructType) -> Iterator[SchemaChange]:
    old_of = _old_fields(before, after)
    matching_fields = {id(old) for old in old_of.values()}
    for old in before.fields:
        if id(old) not in matching_fields:
            yield SchemaChange(parent + old.name, "dropped", before=str(old.type))
    for field in after.fields:
        old_field = old_of.get(field.name)
        if old_field is None:
            yield SchemaChange(parent + field.name, "added", after=str(field.type))
        else:
            yield from _changes_of_field(parent, old_field, field)


def _old_fields(before: StructType, after: StructType) -> dict[str, Field]:
    """The old field of each field that both schemas have, by its new name."""
    by_physical_name = {physical_name(field, "name"): field for field in before.fields}
    old_of: dict[str, Field] = {}
    for field in after.fields:
        old = by_physical_name.get(physical_name(field, "name"))
        if old is not None:
            old_of[field.name] = old
    matched_ids = {id(old) for old in old_of.values()}
    for field in after.fields:
        old = before.get(field.name)
        if field.name not in old_of and old is not None and id(old) not in matched_ids:
            old_of[field.name] = old
    return old_of


def _changes_of_field(parent: str, old: Field, new: Field) -> Iterator[SchemaChange]:
    path = parent + new.name
    if old.name != new.name:
        yield SchemaChange(path, "renamed", old.name, new.name)
    yield from _changes_of_type(path, old.type, new.type)
    if old.nullable != new.nullable:
        yield SchemaChange(path, "nullable" if new.nullable else "not null")


def _changes_of_type(path: str, old: DataType, new: DataType) -> Iterator[SchemaChange]:
    if isinstance(old, StructType) and isinstance(new, StructType):
        yield from _changes(f"{path}.", old, new)
    elif isinstance(old, ArrayType) and isinstance(new, ArrayType):
        yield from _changes_of_type(f"{path}.element", old.element_type, new.element_type)
    elif isinstance(old, MapType) and isinstance(new, MapType):
        yield from _changes_of_type(f"{path}.key", old.key_type, new.key_type)
        yield from _changes_of_type(f"{path}.value", old.value_type, new.value_type)
    elif old != new:
        widens = isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType) and is_widening(old, new)
        yield SchemaChange(path, "widened" if widens else "retyped", str(old), str(new))


def _metadata(store: ObjectStore, commit: Commit) -> Metadata | None:
    """The metadata in a commit; None: the commit has no metadata, or was cleaned up after the listing."""
    try:
        is_small = commit.size <= _BEGINNING
        data = store.read(commit.path) if is_small else read_beginning(store, commit.path, _BEGINNING)
    except ObjectNotFoundError:
        return None
    for line in data.split(b"\n") if _MARK in data else ():
        if _MARK in line:
            try:
                name, body = parse_line(line)
                if name == "metaData":
                    return Metadata.from_json(body)
            except (LogCorruptedError, ValueError):  # a torn line; the version is built without this function
                continue
    return None


def _schema_before(store: ObjectStore, version: int) -> Schema | None:
    """The schema before a version; None: the version is 0, or the schema can no longer be read."""
    if version == 0:
        return None
    try:
        metadata = load_state(store, version - 1).state.metadata
    except (VersionNotFoundError, LogCorruptedError):
        return None
    return None if metadata is None else Schema.from_json(metadata.schema_string)
