"""One commit file: JSON lines in, Arrow columns and a few values out, and back (PROTOCOL.md, section Actions)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakehouse_lib.actions import (
    CHANGE_FILE_SCHEMA,
    FILE_SCHEMA,
    TOMBSTONE_SCHEMA,
    DomainMetadata,
    Metadata,
    Protocol,
    Transaction,
    parse_line,
)
from lakehouse_lib.errors import (
    InvalidArgumentError,
    LogCorruptedError,
    ObjectNotFoundError,
    StoreError,
    VersionNotFoundError,
)
from lakehouse_lib.log import names
from lakehouse_lib.store.base import ObjectStore


@dataclass(frozen=True)
class CommitActions:
    """What one commit says: files as ``adds`` (FILE_SCHEMA), ``removes`` (TOMBSTONE_SCHEMA), ``changes``
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


def read_commit(store: ObjectStore, version: int) -> CommitActions:
    """The commit of ``version``.

    Raises:
        VersionNotFoundError: there is no such commit file.
        LogCorruptedError: a line that is torn or contradicts another.
    """
    try:
        data = store.read(names.commit(version))
    except ObjectNotFoundError as error:
        raise VersionNotFoundError(
            f"the commit file of version {version} is not there",
            table=store.root,
            version=version,
            hint="It was cleaned up or never written; history() lists what is there",
        ) from error
    return parse_commit(data, version, store.root)


def parse_commit(data: bytes, version: int, table: str) -> CommitActions:
    """The actions of one commit file's bytes."""
    adds: list[Mapping[str, Any]] = []
    removes: list[Mapping[str, Any]] = []
    changes: list[Mapping[str, Any]] = []
    transactions: list[Transaction] = []
    domains: list[DomainMetadata] = []
    metadata: list[Metadata] = []
    protocol: list[Protocol] = []
    info: Mapping[str, Any] = {}
    number = 0

    def torn(what: str) -> LogCorruptedError:
        return LogCorruptedError(
            f"line {number} of {names.commit(version)} {what}",
            table=table,
            version=version,
            hint="Restore the file from a backup, or read an older version",
        )

    for number, line in enumerate(data.split(b"\n"), start=1):  # noqa: B007 - torn() tells the line
        if not line.strip():
            continue
        try:
            name, body = parse_line(line)
        except (ValueError, RecursionError) as error:
            raise torn("is no action (torn or not JSON)") from error
        try:
            match name:
                case "add":
                    adds.append(_checked(body))
                case "remove":
                    removes.append(_checked(body))
                case "cdc":
                    changes.append(_checked(body))
                case "metaData":
                    metadata.append(Metadata.from_json(body))
                case "protocol":
                    protocol.append(Protocol.from_json(body))
                case "txn":
                    transactions.append(Transaction.from_json(body))
                case "domainMetadata":
                    domains.append(DomainMetadata.from_json(body))
                case "commitInfo":
                    info = info or body
                case _:
                    pass  # sidecar, checkpointMetadata, and whatever comes: unknown actions are ignored
        except LogCorruptedError as error:
            raise torn(f"is {error.message}") from error
    if len(metadata) > 1 or len(protocol) > 1:
        raise torn("ends a commit with two metaData or two protocol actions")
    if not data.strip():
        raise torn("is the only one and empty")
    try:
        return CommitActions(
            version,
            _columns(adds, FILE_SCHEMA),
            _columns(removes, TOMBSTONE_SCHEMA),
            _columns(changes, CHANGE_FILE_SCHEMA),
            metadata[0] if metadata else None,
            protocol[0] if protocol else None,
            tuple(transactions),
            tuple(domains),
            info,
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, AttributeError) as error:
        raise torn(f"or one before it has a field of the wrong type ({error})") from error


def serialize(
    *,
    info: Mapping[str, Any],
    protocol: Protocol | None,
    metadata: Metadata | None,
    transactions: Iterable[Transaction],
    domains: Iterable[DomainMetadata],
    removes: Sequence[pa.Table],
    adds: Sequence[pa.Table],
) -> bytes:
    """The bytes of a commit file; commitInfo comes first, as in-commit timestamps will want.

    Raises:
        InvalidArgumentError: ``info`` holds what JSON cannot.
    """
    lines: list[tuple[str, Mapping[str, Any]]] = [("commitInfo", info)]
    if protocol is not None:
        lines.append(("protocol", protocol.to_json()))
    if metadata is not None:
        lines.append(("metaData", metadata.to_json()))
    lines.extend(("txn", t.to_json()) for t in transactions)
    lines.extend(("domainMetadata", d.to_json()) for d in domains)
    try:
        # Python would write NaN and Infinity, and no other reader could open the table any more.
        parts = [
            json.dumps({name: body}, separators=(",", ":"), ensure_ascii=False, allow_nan=False) for name, body in lines
        ]
        "\n".join(parts).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"the commit's metadata cannot be written as JSON: {error}",
            hint="Give text, finite numbers, booleans, lists and dictionaries of them",
        ) from error
    for kind, tables in (("remove", removes), ("add", adds)):
        for table in tables:
            for batch in table.to_batches(max_chunksize=65_536):
                parts.extend(
                    json.dumps({kind: _file_body(row, kind)}, separators=(",", ":"), ensure_ascii=False)
                    for row in batch.to_pylist(maps_as_pydicts="strict")
                )
    return ("\n".join(parts) + "\n").encode()


def put_commit(store: ObjectStore, version: int, data: bytes, txn_id: str) -> bool:
    """Put the commit file of ``version``: True when the commit is ours, False when somebody else has that version.

    A store may fail after it has stored the object, or answer twice: the log itself is asked who won.
    """
    try:
        if store.put_if_absent(names.commit(version), data):
            return True
    except StoreError:
        if not is_ours(store, version, txn_id):
            raise
        return True
    return is_ours(store, version, txn_id)


def is_ours(store: ObjectStore, version: int, txn_id: str) -> bool:
    """Whether the commit of ``version`` carries this transaction id in its commitInfo."""
    try:
        first = store.read(names.commit(version)).split(b"\n", 1)[0]
        name, body = parse_line(first)
    except (ObjectNotFoundError, ValueError):
        return False
    return name == "commitInfo" and body.get("txnId") == txn_id


def _checked(body: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(body.get("path"), str) or not body["path"]:
        raise LogCorruptedError("a file action without a path")
    return body


def _columns(bodies: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    if not bodies:
        return schema.empty_table()
    columns = []
    for column in schema:
        values = [body.get(column.name) for body in bodies]
        if pa.types.is_map(column.type):
            values = [None if v is None else list(v.items()) for v in values]
        columns.append(pa.array(values, type=column.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _file_body(row: dict[str, Any], kind: str) -> dict[str, Any]:
    body = {key: value for key, value in row.items() if value is not None}
    if kind == "add":
        body.setdefault("partitionValues", {})
    dv = body.get("deletionVector")
    if dv is not None:
        body["deletionVector"] = {key: value for key, value in dv.items() if value is not None}
    return body
