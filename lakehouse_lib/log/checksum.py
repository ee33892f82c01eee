"""Version checksums: ``N.crc`` has the number and size of the live files of version N, and the actions that are not
files (PROTOCOL.md, Version Checksum File).

A wrong checksum is worse than a missing one, because delta-spark takes the protocol and the metadata from it. So a
checksum is written only if all of its numbers are certain. If a checksum and the log differ, the log is used.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, literal
from lakehouse_lib.errors import DeltaError, LogCorruptedError, ObjectNotFoundError
from lakehouse_lib.features import domain_metadata, in_commit_timestamp
from lakehouse_lib.json_text import excerpt, parse_json
from lakehouse_lib.log import file_names
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.commits.commit_file import CommitActions
from lakehouse_lib.log.replay.file_keys import KEY_COLUMNS
from lakehouse_lib.log.replay.replay import TableState
from lakehouse_lib.protocol.actions import DomainMetadata, Metadata, Protocol, Transaction
from lakehouse_lib.protocol.table_properties import TRANSACTION_RETENTION
from lakehouse_lib.store import ObjectMeta, ObjectStore

logger = logging.getLogger(__name__)

#: A longer list is left out of the checksum, as in delta-spark, because a checksum is read at every commit.
_MOST_TRANSACTIONS = 100
_MOST_DOMAINS = 10


@dataclass(frozen=True)
class Checksum:
    """The content of a version checksum: the counts of live files, and the actions that are not files.

    Attributes:
        size: bytes of all live files.
        files: number of live files.
        transactions, domains: the transactions and domains of the version; None: the checksum does not list them.
        txn_id: the txnId of the commit.
        in_commit_timestamp: ms since the epoch, if the table has in-commit timestamps.
    """

    size: int
    files: int
    metadata: Metadata
    protocol: Protocol
    transactions: Mapping[str, Transaction] | None = None
    domains: Mapping[str, DomainMetadata] | None = None
    txn_id: str | None = None
    in_commit_timestamp: int | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Checksum:
        """The checksum in a JSON object; LogCorruptedError names a field that is missing or has another type."""
        for name in ("numMetadata", "numProtocol"):
            if _number(body, name) != 1:
                raise LogCorruptedError(
                    f"{name} is {excerpt(body.get(name))}; expected 1", code="DELTA_CHECKSUM_CORRUPTED"
                )
        transactions = _objects(body, "setTransactions")
        domains = _objects(body, "domainMetadata")
        return cls(
            _number(body, "tableSizeBytes"),
            _number(body, "numFiles"),
            Metadata.from_json(_object(body, "metadata")),
            Protocol.from_json(_object(body, "protocol")),
            None if transactions is None else {t.app_id: t for t in map(Transaction.from_json, transactions)},
            None if domains is None else {d.domain: d for d in map(DomainMetadata.from_json, domains)},
            body["txnId"] if isinstance(body.get("txnId"), str) else None,
            None if body.get("inCommitTimestampOpt") is None else _number(body, "inCommitTimestampOpt"),
        )

    def to_json(self) -> dict[str, Any]:
        lists_transactions = self.transactions is not None and len(self.transactions) <= _MOST_TRANSACTIONS
        lists_domains = self.domains is not None and len(self.domains) <= _MOST_DOMAINS
        body = {
            "txnId": self.txn_id,
            "tableSizeBytes": self.size,
            "numFiles": self.files,
            "numMetadata": 1,
            "numProtocol": 1,
            "inCommitTimestampOpt": self.in_commit_timestamp,
            "setTransactions": [transaction.to_json() for transaction in (self.transactions or {}).values()]
            if lists_transactions
            else None,
            "domainMetadata": [domain.to_json() for domain in (self.domains or {}).values()] if lists_domains else None,
            "metadata": self.metadata.to_json(),
            "protocol": self.protocol.to_json(),
        }
        return {key: value for key, value in body.items() if value is not None}


def read_checksum(store: ObjectStore, version: int) -> Checksum | None:
    """The checksum of a version, or None if it has none.

    Raises:
        LogCorruptedError: the checksum cannot be read.
    """
    try:
        data = store.read(file_names.checksum(version))
    except ObjectNotFoundError:
        return None
    try:
        body = parse_json(data)
        if not isinstance(body, dict):
            raise LogCorruptedError(f"it is {excerpt(body)}; expected an object", code="DELTA_CHECKSUM_CORRUPTED")
        return Checksum.from_json(body)
    except (ValueError, LogCorruptedError) as error:
        why = error.message if isinstance(error, LogCorruptedError) else str(error)
        raise LogCorruptedError(
            f"the checksum {file_names.checksum(version)} cannot be read ({why})",
            table=store.root,
            version=version,
            hint="repair() deletes it; no version needs it",
            code="DELTA_CHECKSUM_CORRUPTED",
        ) from error


def put_checksum(store: ObjectStore, version: int, checksum: Checksum) -> bool:
    """Write the checksum of a committed version; False if the version has a checksum, which is not replaced."""
    data = json.dumps(checksum.to_json(), separators=(",", ":"), ensure_ascii=False).encode()
    return store.put_if_absent(file_names.checksum(version), data)


def next_checksum(previous: Checksum, commit: CommitActions, *, newer_than: int) -> Checksum | None:
    """The checksum after a commit, derived from the previous checksum; None if it is not certain.

    Args:
        newer_than: commit time of the writer's read version, ms since the epoch. A file that was written later is not
            live in that version, so its add increases the number of files. This assumes that the clocks of the writer
            and the store agree, and that a commit which adds a live file again also removes it, as all verbs do.
    """
    adds, removes = commit.adds, commit.removes
    is_replaced = pc.is_in(adds["path"], value_set=as_array(removes["path"]))
    is_newer = pc.greater(adds["modificationTime"], literal(newer_than, pa.int64()))
    is_new = pc.or_(is_replaced, pc.fill_null(is_newer, literal(False, pa.bool_())))
    if not pc.all(is_new, min_count=0).as_py() or adds["size"].null_count or removes["size"].null_count:
        return None
    size = previous.size + _sum(adds["size"]) - _sum(removes["size"])
    files = previous.files + len(adds) - len(removes)
    if size < 0 or files < 0:
        return None
    domains = None if previous.domains is None else domain_metadata.reconcile(previous.domains, commit.domains)
    metadata = commit.metadata or previous.metadata
    transactions = None
    if previous.transactions is not None and not _expire(metadata):
        transactions = {
            **previous.transactions,
            **{transaction.app_id: transaction for transaction in commit.transactions},
        }
    current = replace(
        previous,
        size=size,
        files=files,
        metadata=metadata,
        protocol=commit.protocol or previous.protocol,
        transactions=transactions,
        domains=domains,
    )
    return of_commit(current, commit.info)


def checksum_of(state: TableState) -> Checksum | None:
    """The checksum of a version, counted from all of its files; None if a size is missing.

    Of the add actions, only the key columns and the sizes are read.
    """
    if state.metadata is None or state.protocol is None:
        return None
    size = files = 0
    for piece in state.files.stream([*KEY_COLUMNS, "size"]):
        if piece["size"].null_count:
            return None
        size += _sum(piece["size"])
        files += len(piece)
    transactions = None if _expire(state.metadata) else dict(state.transactions)
    return Checksum(size, files, state.metadata, state.protocol, transactions, dict(state.domains))


def _expire(metadata: Metadata) -> bool:
    """Whether transactions expire. If so, a checksum lists none, because a later checkpoint leaves out some of them."""
    return TRANSACTION_RETENTION.key in metadata.configuration


def of_commit(checksum: Checksum, info: Mapping[str, Any]) -> Checksum | None:
    """The checksum with the fields that only the version's own commitInfo has.

    None if the table has in-commit timestamps and the commitInfo has none, because the checksum would then be wrong.
    """
    txn_id, moment = info.get("txnId"), info.get("inCommitTimestamp")
    enabled = in_commit_timestamp.is_enabled(checksum.metadata.configuration)
    if enabled and not isinstance(moment, int):
        return None
    return replace(
        checksum,
        txn_id=txn_id if isinstance(txn_id, str) else None,
        in_commit_timestamp=moment if enabled else None,
    )


def contradictions(checksum: Checksum, state: TableState, *, counting: bool) -> list[str]:
    """The differences between a checksum and the log, as phrases.

    Args:
        counting: also read and count the files and their bytes; if False, only data in memory is compared.
    """
    files = state.files
    phrases = []
    if checksum.metadata != state.metadata:
        phrases.append("the metadata differs")
    if checksum.protocol != state.protocol:
        phrases.append("the protocol differs")
    if (counting or files.is_counted) and checksum.files != files.num_rows:
        phrases.append(f"numFiles is {checksum.files}; expected {files.num_rows}")
    if counting or files.base is None:
        truth = checksum_of(state)
        if truth is not None and checksum.size != truth.size:
            phrases.append(f"tableSizeBytes is {checksum.size}; expected {truth.size}")
    for name, entries, log_entries in (
        ("setTransactions", None if _expire(checksum.metadata) else checksum.transactions, state.transactions),
        ("domainMetadata", checksum.domains, state.domains),
    ):
        # Expired entries may be left out.
        if entries is not None and any(log_entries.get(key) != entry for key, entry in entries.items()):
            phrases.append(f"{name} differ")
    return phrases


def warn_of_contradictions(store: ObjectStore, version: int, meta: ObjectMeta, state: TableState) -> None:
    """Log a warning if the checksum file ``meta`` differs from the state of its version in memory."""
    try:
        checksum = CACHE.get(store, [meta], lambda: read_checksum(store, version), lambda _: meta.size)
        phrases = contradictions(checksum, state, counting=False) if checksum is not None else []
    except DeltaError as error:
        phrases = [error.message]
    if phrases:
        logger.warning(
            "the checksum %s of %s differs from the log, so the log is used: %s. Other engines may refuse the table; "
            "repair(dry_run=False) deletes the checksum",
            meta.path,
            store.root,
            "; ".join(phrases),
        )


def _sum(sizes: Any) -> int:
    return int(pc.sum(sizes, min_count=0).as_py())


def _number(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise LogCorruptedError(
            f"{name} is {excerpt(value)}; expected a number from 0", code="DELTA_CHECKSUM_CORRUPTED"
        )
    return value


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if not isinstance(value, dict):
        raise LogCorruptedError(f"{name} is {excerpt(value)}; expected an object", code="DELTA_CHECKSUM_CORRUPTED")
    return value


def _objects(body: Mapping[str, Any], name: str) -> list[Mapping[str, Any]] | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise LogCorruptedError(f"{name} is {excerpt(value)}; expected objects", code="DELTA_CHECKSUM_CORRUPTED")
    return value
