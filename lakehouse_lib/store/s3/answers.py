"""Faster parsers for the longest answers: the objects of a listing, and the names of deleted objects.

botocore's parser takes most of the time of a long listing, and a quarter of the time of a deletion. boto3 calls these
parsers before its own. If a version of botocore does not have this event, or if they cannot parse an answer, botocore's
parser parses all of it.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any
from xml.parsers import expat

from botocore.handlers import BUILTIN_HANDLERS, REGISTER_FIRST

# The event of all operations, because botocore calls its handlers before those of a single operation.
_EVENT = "before-parse.s3.*"
_START, _END = b"<Contents>", b"</Contents>"
# The end of an object, or the start and the text of a member. Members of its owner have other names.
_MEMBER = re.compile(rb"<(/Contents|Key|LastModified|Size|ETag)(?:\s[^>]*|/)?>([^<]*)")
_LAST = b"/Contents"


def register(client: Any) -> None:
    """Let a boto3 client use the parsers.

    They are called before botocore's own handlers, because one of them parses the whole body in search of an error.
    """
    events = client.meta.events
    own = [handler for event, handler, *first in BUILTIN_HANDLERS if event == _EVENT and first == [REGISTER_FIRST]]
    for handler in own:
        events.unregister(_EVENT, handler)
    for handler in (parse_contents, drop_deleted, *own):
        events.register_first(_EVENT, handler)


def parse_contents(
    operation_model: Any, response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any
) -> None:
    """Move the objects from the answer to the result, in botocore's form; their keys are still percent-encoded.

    Args:
        operation_model: the operation of the answer; other operations than ListObjectsV2 are left to botocore.
        response_dict: the answer, with its body as bytes.
        customized_response_dict: the members of the result that botocore does not have to parse.
    """
    if operation_model.name != "ListObjectsV2" or response_dict["status_code"] != 200:
        return
    try:
        contents = _objects(response_dict["body"])
    except ValueError:
        return
    if contents:
        before, _, objects = response_dict["body"].partition(_START)
        response_dict["body"] = before + objects.rpartition(_END)[2]
        customized_response_dict["Contents"] = contents


def drop_deleted(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    """Replace an answer to a deletion that has no error by an empty answer.

    The library asks only for errors (``Quiet``), but some servers name each deleted object nevertheless.

    Args:
        operation_model: the operation of the answer; other operations than DeleteObjects are left to botocore.
        response_dict: the answer, with its body as bytes.
    """
    body = response_dict["body"]
    is_deletion = operation_model.name == "DeleteObjects" and response_dict["status_code"] == 200
    # The end shows that the answer is complete.
    if is_deletion and b"Error" not in body and body.rstrip().endswith(b"</DeleteResult>"):
        response_dict["body"] = b"<DeleteResult/>"


def _objects(body: bytes) -> list[dict[str, Any]]:
    """The objects of an answer.

    Raises:
        ValueError: the answer is not well-formed; the objects have different members; a key has an escaped character;
            or there is something between the objects, a comment or a carriage return.
    """
    start = body.find(_START)
    if start < 0:
        return []
    members = _MEMBER.findall(body, start)
    names = [name for name, _ in members]
    count = names.count(_LAST)
    columns = names[: names.index(_LAST)]
    is_uniform = names == [*columns, _LAST] * count and len({*columns}) == len(columns)
    are_all = body.count(b"<Contents") == count and body.count(_END + _START) == count - 1
    if not is_uniform or not are_all or b"<!" in body or b"\r" in body:
        raise ValueError
    try:
        # As botocore's parser does, refuse an answer that is not well-formed, so that it is requested again.
        expat.ParserCreate("utf-8").Parse(body, True)
    except expat.ExpatError as error:
        raise ValueError from error
    width = len(columns) + 1
    values = {name: [value.decode() for _, value in members[index::width]] for index, name in enumerate(columns)}
    texts = [values.get(name, [""] * count) for name in (b"Key", b"LastModified", b"Size", b"ETag")]
    return [_object(*object_texts) for object_texts in zip(*texts, strict=True)]


def _object(key: str, modified: str, size: str, tag: str) -> dict[str, Any]:
    time, tag = datetime.fromisoformat(modified), tag.replace("&quot;", '"').replace("&#34;", '"')
    if not key or "&" in key or "&" in tag or time.tzinfo is None:
        raise ValueError
    entry = {"Key": key, "LastModified": time, "Size": int(size)}
    return {**entry, "ETag": tag} if tag else entry
