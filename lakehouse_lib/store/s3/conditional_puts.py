"""The test whether a server refuses a put whose condition is false. A process tests each bucket once."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lakehouse_lib.errors import StoreError, StoreRefusedError
from lakehouse_lib.store.s3.client import S3Client
from lakehouse_lib.store.s3.errors import status_of
from lakehouse_lib.store.s3.requests import put_if
from lakehouse_lib.threads import ProcessLock

# Readers of the log ignore this name. It sorts before the names that they list.
_PROBE = "_delta_log/.conditional-put-"

# Buckets that have refused a conditional put in this process, by endpoint and name.
_probed_buckets: set[tuple[str | None, str]] = set()
_lock = ProcessLock()


def check_conditional_puts(client: S3Client, bucket: str, prefix: str, *, table: str) -> None:
    """Check that the bucket refuses a put whose condition is false.

    Args:
        prefix: the prefix of the table's keys; the test puts an object below it and deletes it.
        table: the table's location, for errors.

    Raises:
        StoreRefusedError: the bucket stores the object although the condition is false.
    """
    key = client.options.endpoint_url, bucket
    if key in _probed_buckets:
        return
    with _lock:
        if key not in _probed_buckets:
            _probe(client, {"Bucket": bucket, "Key": f"{prefix}{_PROBE}{uuid.uuid4()}"}, table)
            _probed_buckets.add(key)


def _probe(client: S3Client, place: Mapping[str, str], table: str) -> None:
    is_refused = client.call("the test of conditional puts", lambda boto: _is_second_refused(boto, place), storing=True)
    with contextlib.suppress(StoreError):  # without the permission to delete, an empty object stays
        client.call("the deletion of a test object", lambda boto: boto.delete_object(**place))
    if not is_refused:
        raise StoreRefusedError(
            f"the server {client.options.endpoint_url or 'of the bucket'} ignores the condition of a put "
            "(If-None-Match), so two writers could commit the same version and rows would be lost",
            table=table,
            hint="Use an endpoint that checks it (Amazon S3, MinIO, R2, Ceph, versitygw do in current releases); "
            "or, if no other process ever writes to the table, set the storage option single_writer=true",
        )


def _is_second_refused(client: Any, place: Mapping[str, str]) -> bool:
    """Whether the server refuses the second of two puts of one object.

    It refuses the first one only if an earlier attempt stored the object and its answer was lost.
    """
    try:
        return not all(put_if(client, place, b"", IfNoneMatch="*") for _ in range(2))
    except ClientError as error:
        if status_of(error) == 501:
            return False
        raise
