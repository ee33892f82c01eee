"""The put of the next commit file, and the check which writer's commit the log then has."""

from __future__ import annotations

import random
import time

from lakehouse_lib.errors import ObjectNotFoundError, StoreError, StoreRefusedError, TableNotFoundError
from lakehouse_lib.log import file_names, latest_version
from lakehouse_lib.protocol.actions import parse_line
from lakehouse_lib.store import ObjectStore

#: The waits take at most about twenty seconds. A store also retries transient errors itself, which may take longer.
_ATTEMPTS = 10
_PATIENCE_SECONDS = 60.0
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 5.0


def put_commit(store: ObjectStore, version: int, data: bytes, txn_id: str) -> bool | StoreError:
    """Put the commit file of ``version``.

    A put without an answer may be stored already, may be stored later, or may never be stored. So the version is read,
    and its txnId shows whose commit it is. While the version does not exist, the same bytes are put again. If an
    earlier put arrives later, the store refuses it, because the version exists.

    Returns:
        True: the commit is this writer's. False: the version is the commit of another writer, and this
        commit will never exist.
        An error: the outcome is unknown, because the store gave no answer for too long, or because a log cleanup
        deleted the version before it could be read.

    Raises:
        StoreRefusedError: the store refused the file and stored nothing.
        TableNotFoundError: the version existed, and now neither it nor the version before it does.
    """
    failure: StoreError | None = None
    is_taken = in_doubt = False
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for attempt in range(_ATTEMPTS):
        if attempt:
            if time.monotonic() > deadline:
                break
            time.sleep(random.uniform(0.5, 1) * min(_FIRST_WAIT_SECONDS * 2**attempt, _LONGEST_WAIT_SECONDS))  # noqa: S311
        failure = None
        try:
            # Do not put the version again if it was taken: if it is missing now, a cleanup or a deletion removed it.
            is_taken = is_taken or not store.put_if_absent(file_names.commit(version), data)
            if not is_taken:
                return True
        except StoreError as error:
            if isinstance(error, StoreRefusedError) and not attempt:
                raise
            failure, in_doubt = error, True
        try:
            is_ours = _txn_id_of(store, version) == txn_id
            if is_ours and in_doubt:
                # The commit file exists, but the failed put may not have synced it to disk.
                store.sync([file_names.commit(version)])
            return is_ours
        except ObjectNotFoundError as missing:
            failure = failure or missing
        except StoreError as error:
            failure = error
            continue
        if not is_taken:
            continue
        try:
            newest = latest_version(store)
        except StoreError as error:
            failure = error
            continue
        if newest is not None and newest > version:
            # The store may have stored this commit and then refused the repetition of its put, so the owner is unknown.
            return StoreError("a log cleanup deleted the version before its owner could be read", table=store.root)
        if newest is None or newest < version - 1:
            raise TableNotFoundError(
                "the log no longer exists",
                table=store.root,
                version=version,
                hint="The table was deleted during this write, and no version of it is left",
            )
    assert failure is not None
    return failure


def _txn_id_of(store: ObjectStore, version: int) -> str | None:
    """The txnId in the commitInfo of ``version``; None if the commit has none."""
    try:
        name, body = parse_line(store.read(file_names.commit(version)).split(b"\n", 1)[0])
    except ValueError:
        return None
    txn_id = body.get("txnId") if name == "commitInfo" else None
    return txn_id if isinstance(txn_id, str) else None
