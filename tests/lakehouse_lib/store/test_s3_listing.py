"""The parser of listings gives what botocore's parser gives, and leaves to it what it does not understand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakehouse_lib.store import ObjectMeta, ObjectStore, open_store
from lakehouse_lib.store.s3 import listing
from tests.s3_server import S3Server

PAGE = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><KeyCount>1</KeyCount>
<Contents><Key>a%20b</Key><LastModified>{time}</LastModified><ETag>"e"</ETag><Size>{size}</Size></Contents>
<IsTruncated>false</IsTruncated></ListBucketResult>"""


def answer(text: str, status: int = 200) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer after the parser, and the members that it has added."""
    response: dict[str, Any] = {"status_code": status, "body": text.encode()}
    members: dict[str, Any] = {}
    listing.parse_contents(response_dict=response, customized_response_dict=members, operation_model=None)
    return response, members


def objects(store: ObjectStore) -> dict[str, tuple[ObjectMeta, str]]:
    return {meta.path: (meta, meta.tag) for meta in store.walk()}


def test_both_parsers_list_the_same(s3_server: S3Server, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(location, s3_server.options)
    for number, name in enumerate(["a b", "p=ü%20/x+y", "p=&<>/'\"", "plain/0.parquet", "_delta_log/0.json", "d/x"]):
        store.put(name, b"x" * number)
    fast, folders = objects(store), store.folders()
    calls = 0

    def refuse(_: Any) -> Any:
        nonlocal calls
        calls += 1
        raise ValueError

    monkeypatch.setattr(listing, "_object", refuse)
    assert (objects(store), store.folders()) == (fast, folders)
    assert len(fast) == 6
    assert all(tag for _, tag in fast.values())
    assert calls > 0


def test_an_answer_without_its_objects_is_left_to_botocore() -> None:
    response, members = answer(PAGE.format(time="2026-01-02T03:04:05.678Z", size=7))
    (entry,) = members["Contents"]
    assert entry == {
        "Key": "a%20b",
        "LastModified": datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC),
        "Size": 7,
        "ETag": '"e"',
    }
    assert b"Contents" not in response["body"]
    assert b"IsTruncated>false<" in response["body"]
    _, members = answer(PAGE.format(time="2026-01-02T03:04:05+02:00", size=7))
    assert members["Contents"][0]["LastModified"].utcoffset() == timedelta(hours=2)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (PAGE.format(time="Fri, 02 Jan 2026 03:04:05 GMT", size=7), 200),
        (PAGE.format(time="2026-01-02T03:04:05", size=7), 200),
        (PAGE.format(time="2026-01-02T03:04:05Z", size="many"), 200),
        (PAGE.format(time="2026-01-02T03:04:05Z", size=7).replace("Key>", "Name>"), 200),
        (PAGE[:120], 200),
        ("", 200),
        (PAGE.format(time="2026-01-02T03:04:05Z", size=7), 403),
        ("<Error><Code>SlowDown</Code></Error>", 503),
    ],
)
def test_other_answers_are_unchanged(text: str, status: int) -> None:
    response, members = answer(text, status)
    assert (response, members) == ({"status_code": status, "body": text.encode()}, {})
