"""A faster parser for the objects of a listing. botocore's parser takes most of the time of a long listing.

boto3 calls ``parse_contents`` before it parses an answer. If a version of botocore does not have this event, or if
``parse_contents`` cannot parse an answer, botocore's parser parses the objects.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from xml.etree import ElementTree

_EVENT = "before-parse.s3.ListObjectsV2"


def register(client: Any) -> None:
    """Let a boto3 client use the parser."""
    client.meta.events.register(_EVENT, parse_contents)


def parse_contents(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Move the objects from the answer to the result, in botocore's form; their keys are still percent-encoded.

    Args:
        response_dict: the answer, with its body as bytes.
        customized_response_dict: the members of the result that botocore does not have to parse.
    """
    if response_dict["status_code"] != 200:
        return
    try:
        root = ElementTree.fromstring(response_dict["body"])  # noqa: S314 - botocore parses it by the same parser
        contents = [_object(element) for element in root if _name(element) == "Contents"]
    except (ElementTree.ParseError, ValueError, KeyError, TypeError):
        return
    if contents:
        root[:] = [element for element in root if _name(element) != "Contents"]
        response_dict["body"] = ElementTree.tostring(root)
        customized_response_dict["Contents"] = contents


def _object(element: ElementTree.Element) -> dict[str, Any]:
    values = {_name(member): member.text for member in element}
    modified = datetime.fromisoformat(str(values["LastModified"]))
    if modified.tzinfo is None or values["Key"] is None:
        raise ValueError
    entry = {"Key": values["Key"], "LastModified": modified, "Size": int(str(values["Size"]))}
    return entry if values.get("ETag") is None else {**entry, "ETag": values["ETag"]}


def _name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2]
