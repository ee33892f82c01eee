"""Requests to a bucket with a boto3 client. An error answer that callers expect, such as 412, becomes a result.

A *place* is the bucket and key of an object: ``{"Bucket": ..., "Key": ...}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from lakehouse_lib.store.s3.errors import code_of, is_absent, status_of

# The first request reads the end of an object and returns its size. So it reads a smaller object completely.
_WHOLE_BELOW = 512 << 10


def put_if(client: Any, place: Mapping[str, str], data: bytes, **condition: str) -> bool:
    """Put an object on a condition; False if the condition is false.

    Args:
        condition: ``IfNoneMatch="*"``, or ``IfMatch`` with a tag.
    """
    try:
        client.put_object(**place, Body=data, **condition)
    except ClientError as error:
        # 404: the object to replace no longer exists.
        if status_of(error) == 412 or (is_absent(error) and "IfMatch" in condition):
            return False
        raise
    return True


def get(client: Any, place: Mapping[str, str]) -> tuple[str, bytes]:
    """The tag and the bytes of an object."""
    answer = client.get_object(**place)
    return str(answer["ETag"]), answer["Body"].read()


def get_range(client: Any, place: Mapping[str, str], start: int, length: int, tag: str) -> bytes | None:
    """Bytes of an object; None if it has another tag.

    The tag of the answer is checked here, too, because some servers ignore ``IfMatch``.

    Args:
        start: the position of the first byte.
        length: the number of bytes; the result is shorter at the end of the object.
    """
    try:
        answer = client.get_object(**place, Range=f"bytes={start}-{start + length - 1}", IfMatch=tag)
    except ClientError as error:
        if status_of(error) == 412:
            return None
        if not _is_outside_object(error):
            raise
        answer = client.head_object(**place)  # an empty object has no ranges
        return b"" if _is_tag(answer, tag) else None
    if not _is_tag(answer, tag):
        return None
    data: bytes = answer["Body"].read()
    return data


def get_end(client: Any, place: Mapping[str, str]) -> tuple[bytes, int]:
    """The last 512 KiB of an object, or the whole object if it is smaller, and the object's size."""
    try:
        answer = client.get_object(**place, Range=f"bytes=-{_WHOLE_BELOW}")
    except ClientError as error:
        if not _is_outside_object(error):
            raise
        answer = client.get_object(**place)  # an empty object has no ranges
    data: bytes = answer["Body"].read()
    _, _, size = str(answer.get("ContentRange", "")).rpartition("/")
    return data, int(size) if size.isdigit() else len(data)


def list_page(client: Any, **parameters: str) -> Any:
    """A page of a listing."""
    return client.list_objects_v2(**parameters)


def delete(client: Any, bucket: str, keys: list[str]) -> list[Mapping[str, Any]]:
    """Delete objects, and return the failures; an object that does not exist is not a failure."""
    answer = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True})
    return [failure for failure in answer.get("Errors", ()) if failure.get("Code") != "NoSuchKey"]


def _is_outside_object(error: ClientError) -> bool:
    return status_of(error) == 416 or code_of(error) == "InvalidRange"


def _is_tag(answer: Mapping[str, Any], tag: str) -> bool:
    return bool(answer["ETag"].strip('"') == tag.strip('"'))
