"""Readers and writers of commit files. Each line is a JSON object with one action (PROTOCOL.md, section Actions)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import (
    InvalidArgumentError,
    LogCorruptedError,
    ObjectNotFoundError,
    StoreError,
    VersionNotFoundError,
)
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.log import file_names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.commits.action_lines import MAX_LINE_BYTES, check_line, read_actions
from lakehouse_lib.log.commits.file_actions import TornLineError, check_files
from lakehouse_lib.log.replay.duplicate_paths import are_surely_distinct
from lakehouse_lib.protocol.actions import (
    TOMBSTONE_SCHEMA,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
    parse_line,
)
from lakehouse_lib.store import ObjectMeta, ObjectStore

_BLOCK_BYTES = 8 * 2**20
# The bytes at the beginning of a commit in which commitInfo is looked for.
_BEGINNING_BYTES = 64 * 2**10
#: Matches each commit that has a remove action: JSON may write any letter of the name as an escape.
_MAY_REMOVE = re.compile(rb'"remove"|\\u')


@dataclass(frozen=True)
class CommitActions:
    """The actions of one commit; files are in ``adds`` (FILE_SCHEMA), ``removes`` (TOMBSTONE_SCHEMA) and ``changes``
    (CHANGE_FILE_SCHEMA)."""

    version: int
    adds: pa.Table
    removes: pa.Table
    changes: pa.Table
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    transactions: tuple[Transaction, ...] = ()
    domains: tuple[DomainMetadata, ...] = ()
    info: Mapping[str, Any] = field(default_factory=dict)


def read_commit(store: ObjectStore, version: int, *, size: int | None = None) -> CommitActions:
    """The commit of ``version``.

    Args:
        size: the size of the commit file in bytes, from a listing; None: the store is asked for it.

    Raises:
        VersionNotFoundError: the commit file does not exist.
        LogCorruptedError: a line is incomplete, or contradicts another line.
    """
    path = file_names.commit(version)
    try:
        if size is None:
            meta = store.head(path)
            size = meta.size if meta is not None else 0
        # Over a network one request is faster than many; from a disk, blocks need less memory.
        if size <= (MAX_LINE_BYTES if store.is_remote else _BLOCK_BYTES):
            return parse_commit(store.read(path), version, store.root)
        return _parse(_blocks(store, path), version, store.root)
    except ObjectNotFoundError as error:
        raise _missing(version, store.root) from error


def read_removes(store: ObjectStore, version: int, size: int) -> pa.Table:
    """The remove actions (TOMBSTONE_SCHEMA) of a commit of ``size`` bytes.

    If the commit has none, only its last line is parsed: it shows whether the end of the commit is missing, and with it
    perhaps a remove action. Errors as ``read_commit``.
    """
    if size > _BLOCK_BYTES:
        return read_commit(store, version, size=size).removes
    try:
        data = store.read(file_names.commit(version))
    except ObjectNotFoundError as error:
        raise _missing(version, store.root) from error
    if not _MAY_REMOVE.search(data):
        with suppress(ValueError):
            parse_line(data.rstrip().rpartition(b"\n")[2])
            return pa.Table.from_batches([], TOMBSTONE_SCHEMA)
    return parse_commit(data, version, store.root).removes


def read_info(store: ObjectStore, version: int) -> Mapping[str, Any]:
    """The commitInfo of ``version``. If it is the first line, the other lines are not parsed.

    Errors as ``read_commit``.
    """
    try:
        beginning = read_beginning(store, file_names.commit(version), _BEGINNING_BYTES)
        name, body = parse_line(beginning.split(b"\n", 1)[0])
    except (ObjectNotFoundError, ValueError):
        name, body = "", {}
    return body if name == "commitInfo" else read_commit(store, version).info


def read_beginning(store: ObjectStore, path: str, length: int) -> bytes:
    """The first bytes of a commit file, at most ``length``.

    Raises:
        ObjectNotFoundError: the file does not exist.
        StoreError: the file cannot be read.
    """
    with _open_file(store, path) as source:
        data: bytes = source.read(length)
    return data


def read_listed(store: ObjectStore, version: int, listed: ObjectMeta) -> CommitActions:
    """A commit from a listing, cached in this process. Errors as ``read_commit``."""
    return CACHE.get(store, [listed], lambda: read_commit(store, version, size=listed.size), commit_nbytes)


def commit_nbytes(actions: CommitActions) -> int:
    """Bytes of a commit's columns in memory."""
    return int(actions.adds.nbytes + actions.removes.nbytes + actions.changes.nbytes)


def parse_commit(data: bytes, version: int, table: str) -> CommitActions:
    """The actions in the bytes of a commit file.

    Raises:
        LogCorruptedError: a line is incomplete, or contradicts another line.
    """
    return _parse([data], version, table)


def _parse(blocks: Iterable[bytes], version: int, table: str) -> CommitActions:
    is_empty = True

    def checked() -> Iterator[bytes]:
        nonlocal is_empty
        for block in blocks:
            is_empty = is_empty and (not block or block.isspace())
            yield block

    try:
        actions = read_actions(checked())
    except TornLineError as error:
        raise _corrupted(error.what, version, table, line=error.number) from error
    if is_empty:
        raise _corrupted("is empty", version, table)
    for name, bodies in (("metaData", actions.metadata), ("protocol", actions.protocol)):
        if len(bodies) > 1:
            raise _corrupted(f"has {len(bodies)} {name} actions; expected at most one", version, table)
    adds = _without_repeats(actions.adds, "add", version, table)
    removes = _without_repeats(actions.removes, "remove", version, table)
    _check_disjoint(adds, removes, version, table)
    return CommitActions(
        version,
        adds,
        removes,
        actions.changes,
        actions.metadata[0] if actions.metadata else None,
        actions.protocol[0] if actions.protocol else None,
        actions.transactions,
        actions.domains,
        actions.info,
    )


def _without_repeats(files: pa.Table, kind: str, version: int, table: str) -> pa.Table:
    """The files without repeated lines, so that each path occurs once.

    Two different lines of one path are an error: the protocol forbids them (PROTOCOL.md, section Add File and Remove
    File), and readers differ in which of them they use.
    """
    if are_surely_distinct(files["path"]):
        return files
    counts = files["path"].value_counts()
    repeated_paths = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    first_rows: dict[str, Any] = {}
    positions = []
    for position in np.flatnonzero(pc.is_in(files["path"], value_set=repeated_paths).to_numpy(zero_copy_only=False)):
        row = files.slice(int(position), 1).to_pylist(maps_as_pydicts="strict")[0]
        if first_rows.setdefault(row["path"], row) is not row:
            if first_rows[row["path"]] != row:
                raise _corrupted(f"has two different {kind} actions of {excerpt(row['path'])}", version, table)
            positions.append(position)
    keep = np.ones(len(files), dtype=np.bool_)
    keep[positions] = False
    return files.filter(pa.array(keep))


def _check_disjoint(adds: pa.Table, removes: pa.Table, version: int, table: str) -> None:
    """Check that no file (with its deletion vector) is both added and removed. The actions of a commit have no order.

    Raises:
        LogCorruptedError: a file is both added and removed.
    """
    common_adds = (
        adds.filter(pc.is_in(adds["path"], value_set=removes["path"].combine_chunks())) if len(removes) else adds[:0]
    )
    if not len(common_adds):
        return
    vectors = {path: _vector_id(vector) for path, vector in _paths_and_vectors(removes)}
    for path, vector in _paths_and_vectors(common_adds):
        if vectors[path] == _vector_id(vector):
            raise _corrupted(f"adds and removes {excerpt(path)} at once", version, table)


def _paths_and_vectors(files: pa.Table) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    for batch in files.select(["path", "deletionVector"]).to_batches(max_chunksize=65_536):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _vector_id(vector: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return () if vector is None else (vector["storageType"], vector["pathOrInlineDv"], vector["offset"])


def _blocks(store: ObjectStore, path: str) -> Iterator[bytes]:
    with _open_file(store, path) as source:
        while block := source.read(_BLOCK_BYTES):
            yield block


@contextmanager
def _open_file(store: ObjectStore, path: str) -> Iterator[pa.NativeFile]:
    """Open a commit file. An OSError of a read becomes StoreError, as for the other methods of a store."""
    try:
        with store.open_input(path) as source:
            yield source
    except OSError as error:
        text = str(error).partition("\n")[0]
        raise StoreError(f"{path}: {text}", table=store.root, hint=store.explain(error)) from error


def _missing(version: int, table: str) -> VersionNotFoundError:
    return VersionNotFoundError(
        f"the commit file of version {version} does not exist",
        table=table,
        version=version,
        hint="It was cleaned up or never written; history() lists the commits in the log",
    )


def _corrupted(what: str, version: int, table: str, *, line: int | None = None) -> LogCorruptedError:
    where = file_names.commit(version) if line is None else f"line {line} of {file_names.commit(version)}"
    return LogCorruptedError(
        f"{where} {what}",
        table=table,
        version=version,
        hint="Restore the file from a backup, or read an older version, whose repair() reports what else is wrong",
    )


#: The hint for each kind of action, for an error that readers could not parse its line.
_LINE_HINTS: Mapping[str, str] = {
    "commitInfo": "Give less custom_metadata, and set this machine's clock right. If the in-commit timestamp of the "
    "table is too far ahead, set delta.enableInCommitTimestamps to false by delta-spark's ALTER TABLE ... SET "
    "TBLPROPERTIES",
    "protocol": "Give versions and features that are valid together",
    "metaData": "Give fewer or shorter columns, properties and comments",
    "txn": "Give the application a shorter name",
    "domainMetadata": "Give the domain a shorter configuration",
    "remove": "Remove files as the snapshot has them",
    "cdc": "Give each change file once, with its size",
    "add": "Give each file once, with its size, and bound its statistics by delta.dataSkippingNumIndexedCols",
}


def serialize(commit: CommitActions, table: str, *, is_compaction: bool = False) -> bytes:
    """The bytes of a commit file; commitInfo comes first, as in-commit timestamps require.

    A commit that ``parse_commit`` would refuse is not written, because the table could not be opened any more.

    Args:
        is_compaction: write a log compaction, which has no commitInfo and may remove a file with several vectors. It is
            empty if the commits have only commitInfo and change files.

    Raises:
        InvalidArgumentError: JSON cannot represent a value, or readers could not parse the commit, because a line is
            too long, a time is after the year 9999, or a file is both added and removed.
    """
    lines: list[tuple[str, Mapping[str, Any]]] = [] if is_compaction else [("commitInfo", commit.info)]
    if commit.protocol is not None:
        lines.append(("protocol", commit.protocol.to_json()))
    if commit.metadata is not None:
        lines.append(("metaData", commit.metadata.to_json()))
    lines.extend(("txn", t.to_json()) for t in commit.transactions)
    lines.extend(("domainMetadata", d.to_json()) for d in commit.domains)
    try:
        # Python would write NaN and Infinity, which are not JSON: no other reader could open the table.
        parts = [
            json.dumps({name: body}, separators=(",", ":"), ensure_ascii=False, allow_nan=False) for name, body in lines
        ]
        encoded_lines = [(name, part.encode()) for (name, _), part in zip(lines, parts, strict=True)]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"the commit's metadata cannot be written as JSON: {error}",
            table=table,
            version=commit.version,
            hint="Give text, finite numbers, booleans, lists and dictionaries of them",
        ) from error
    for name, line in encoded_lines:
        _check_line(name, line, commit.version, table)
    for kind, files in (("remove", commit.removes), ("add", commit.adds), ("cdc", commit.changes)):
        _check_files(kind, files, commit.version, table, distinct_paths=not is_compaction)
        for batch in files.to_batches(max_chunksize=65_536):
            encoded_lines.extend(
                (kind, json.dumps({kind: _file_body(row, kind)}, separators=(",", ":"), ensure_ascii=False).encode())
                for row in batch.to_pylist(maps_as_pydicts="strict")
            )
    name, line = max(encoded_lines, key=lambda entry: len(entry[1]), default=("", b""))
    if len(line) > MAX_LINE_BYTES:
        what = f"the {name} line has {len(line)} bytes; expected at most {MAX_LINE_BYTES}: {excerpt(line.decode())}"
        raise _unreadable(name, what, commit.version, table)
    try:
        _check_disjoint(commit.adds, commit.removes, commit.version, table)
    except LogCorruptedError as error:
        raise _unreadable("add", error.message, commit.version, table) from error
    return b"".join(encoded_line + b"\n" for _, encoded_line in encoded_lines)


def _check_line(name: str, line: bytes, version: int, table: str) -> None:
    """Check that readers can parse a line that is about to be written; ``serialize`` checks its length."""
    try:
        if len(line) <= MAX_LINE_BYTES:
            check_line(line)
    except TornLineError as error:
        raise _unreadable(name, f"a line {error.what}", version, table) from error


def _check_files(kind: str, files: pa.Table, version: int, table: str, *, distinct_paths: bool) -> None:
    if not len(files):
        return
    try:
        check_files(kind, files)
        if distinct_paths:
            _without_repeats(files, kind, version, table)
    except TornLineError as error:
        path = files["path"][error.number - 1].as_py()
        raise _unreadable(kind, f"the line of {excerpt(path)} {error.what}", version, table) from error
    except LogCorruptedError as error:
        raise _unreadable(kind, error.message, version, table) from error


def _unreadable(name: str, what: str, version: int, table: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"nothing was committed, because readers could not parse the commit: {what}",
        table=table,
        version=version,
        hint=_LINE_HINTS[name],
    )


def _file_body(row: dict[str, Any], kind: str) -> dict[str, Any]:
    body = {key: value for key, value in row.items() if value is not None}
    if kind == "cdc":
        body["dataChange"] = False  # required by the protocol: change files hold no rows of the table
    if kind != "remove":
        body.setdefault("partitionValues", {})
    dv = body.get("deletionVector")
    if dv is not None:
        body["deletionVector"] = {key: value for key, value in dv.items() if value is not None}
    return body
