"""The parsers of long answers give what botocore's parser gives, and leave to it what they do not understand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from xml.sax.saxutils import escape

import pytest
from botocore import handlers
from botocore.parsers import create_parser
from botocore.session import get_session
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse_lib.store import ObjectMeta, ObjectStore, open_store
from lakehouse_lib.store.s3 import answers
from tests.s3_server import S3Server

PAGE = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><KeyCount>1</KeyCount>
<Contents><Key>a%20b</Key><LastModified>{time}</LastModified><ETag>"e"</ETag><Size>{size}</Size></Contents>
<IsTruncated>false</IsTruncated></ListBucketResult>"""


def answer(text: str, status: int = 200, operation: str = "ListObjectsV2") -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer after the parser, and the members that it has added."""
    response: dict[str, Any] = {"status_code": status, "body": text.encode()}
    members: dict[str, Any] = {}
    answers.parse_contents(SimpleNamespace(name=operation), response, members)
    return response, members


def objects(store: ObjectStore) -> dict[str, tuple[ObjectMeta, str]]:
    return {meta.path: (meta, meta.tag) for meta in store.walk()}


def test_both_parsers_list_the_same(s3_server: S3Server, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(location, s3_server.options)
    for number, name in enumerate(["a b", "p=ü%20/x+y", "p=&<>/'\"", "plain/0.parquet", "_delta_log/0.json", "d/x"]):
        store.put(name, b"x" * number)
    fast, folders = objects(store), store.folders()
    calls = 0

    def refuse(*_: Any) -> Any:
        nonlocal calls
        calls += 1
        raise ValueError

    monkeypatch.setattr(answers, "_object", refuse)
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
    for quote in ("&quot;", "&#34;"):
        _, members = answer(PAGE.format(time="2026-01-02T03:04:05.678Z", size=7).replace('"e"', f"{quote}e{quote}"))
        assert members["Contents"] == [entry]
    _, members = answer(PAGE.format(time="2026-01-02T03:04:05+02:00", size=7))
    assert members["Contents"][0]["LastModified"].utcoffset() == timedelta(hours=2)


def test_botocore_parses_an_answer_without_its_objects(
    s3_server: S3Server, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore's own handlers, which look for an error in the body, are called after the parser."""
    searched: list[bytes] = []
    search = handlers._looks_like_special_case_error

    def spy(status: int, body: bytes) -> Any:
        searched.append(body)
        return search(status, body)

    monkeypatch.setattr(handlers, "_looks_like_special_case_error", spy)
    store = open_store(location, s3_server.options)
    store.put("x", b"x")
    assert [meta.path for meta in store.walk()] == ["x"]
    assert any(b"ListBucketResult" in body for body in searched)
    assert not any(b"<Contents>" in body for body in searched)


OBJECT = "<Contents><Key>a</Key><LastModified>2026-01-02T03:04:05Z</LastModified><Size>7</Size></Contents>"
OTHER_ORDER = "<Contents><Key>b</Key><Size>7</Size><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>"
TAG_LAST = OBJECT.replace("</Contents>", "<ETag>b</ETag></Contents>")
TAG_FIRST = OBJECT.replace("<Key>a</Key>", "<ETag>b</ETag>").replace("</Contents>", "<Key>a</Key></Contents>")
TWO_KEYS = "<Contents><Key>b</Key><Key>c</Key><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (f"<ListBucketResult>{OBJECT}{OTHER_ORDER}</ListBucketResult>", 200),
        (f"<ListBucketResult>{OBJECT}<KeyCount>2</KeyCount>{OBJECT}</ListBucketResult>", 200),
        (f"<ListBucketResult>{TWO_KEYS}</ListBucketResult>", 200),
        (f"<ListBucketResult>{OBJECT}<Contents/></ListBucketResult>", 200),
        (f"<ListBucketResult><!-- none -->{OBJECT}</ListBucketResult>", 200),
        (f"<ListBucketResult>{OBJECT.replace('<Key>a', '<Key>a&amp;b')}</ListBucketResult>", 200),
        (PAGE.format(time="2026-01-02T03:04:05Z", size=7).replace('"e"', "&#x22;e&#x22;"), 200),
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


def test_answers_of_other_operations_are_unchanged() -> None:
    text = f"<ListBucketResult>{OBJECT}</ListBucketResult>"
    assert answer(text)[1] != {}
    assert answer(text, operation="ListObjectVersions")[1] == {}


MEMBERS = ("Key", "LastModified", "Size", "ETag")
SHAPE = get_session().get_service_model("s3").operation_model("ListObjectsV2").output_shape
QUOTES = {"plain": '"', "named": "&quot;", "numbered": "&#34;", "hexadecimal": "&#x22;"}


@st.composite
def listings(draw: st.DrawFn) -> bytes:
    """An answer in the form of some server, of which a part may be lost, doubled or replaced."""
    order = draw(st.permutations([*MEMBERS, "StorageClass", "Owner"]))
    quote, gap = draw(st.sampled_from([*QUOTES.values()])), draw(st.sampled_from(["", "", "\n", "<!-- - -->", "\r\n"]))
    objects = []
    for key in draw(st.lists(st.text("ab/%=é&<>'\" \n\r", max_size=4), max_size=3)):
        texts = {
            "Key": escape(key),
            "LastModified": draw(st.sampled_from(["2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05Z"])),
            "Size": str(draw(st.integers(0, 9))),
            "ETag": f"{quote}e{quote}",
            "StorageClass": "STANDARD",
            "Owner": "<ID>i</ID><DisplayName>Key</DisplayName>",
        }
        members = [name for name in order if name in MEMBERS or draw(st.booleans())]
        objects.append("".join(f"<{name}>{texts[name]}</{name}>" for name in members))
    contents = gap.join(f"<Contents>{text}</Contents>" for text in objects)
    prefixes = draw(st.sampled_from(["", "<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes>"]))
    namespace = draw(st.sampled_from(["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"']))
    body = f"<ListBucketResult{namespace}><KeyCount>1</KeyCount>{contents}{prefixes}</ListBucketResult>".encode()
    if draw(st.booleans()):
        start, end = sorted((draw(st.integers(0, len(body))), draw(st.integers(0, len(body)))))
        body = body[:start] + draw(st.sampled_from([b"", body[start:end] * 2, b"x", b"<", b"&", b"\xff"])) + body[end:]
    return body


def parsed(response: dict[str, Any], members: dict[str, Any]) -> Any:
    """What boto3 returns for an answer; None if it raises an error."""
    try:
        result = {**create_parser("rest-xml").parse({**response, "headers": {}}, SHAPE), **members}
    except Exception:
        return None
    # A later handler of botocore fails at an object without a key. A member that is given twice is a list of elements.
    objects = result.get("Contents", ())
    if any("Key" not in entry or any(isinstance(value, list) for value in entry.values()) for entry in objects):
        return None
    contents = [{name: entry.get(name) for name in MEMBERS} for entry in result.pop("Contents", ())]
    return result, contents


@given(listings())
@example(f"<L>{OBJECT.replace('</Size>', '</Size><ETag a=>e</ETag>')}</L>".encode())
@example(f"<L>{OBJECT.replace('</Key>', '')}</L>".encode())
@example(f"<L>{OBJECT.replace('<Key>a', '<Key>a' + chr(13))}</L>".encode())
@example(f"<L>{OBJECT.replace('</Key>', '</Key><Key>b</Key>')}</L>".encode())
@example(f"<L>{TAG_LAST}{TAG_FIRST}</L>".encode())
@example(f"<L><Key>b</Key>{OBJECT}</L>".encode())
def test_any_answer_is_parsed_as_botocore_parses_it(body: bytes) -> None:
    response: dict[str, Any] = {"status_code": 200, "body": body}
    members: dict[str, Any] = {}
    expected = parsed(response, members)
    answers.parse_contents(SimpleNamespace(name="ListObjectsV2"), response, members)
    assert parsed(response, members) == expected


DELETED = b"<DeleteResult>" + b"<Deleted><Key>a/b</Key></Deleted>" * 2 + b"</DeleteResult>"


@pytest.mark.parametrize(
    ("body", "status", "operation", "is_replaced"),
    [
        (DELETED, 200, "DeleteObjects", True),
        (DELETED + b"\n", 200, "DeleteObjects", True),
        (
            DELETED.replace(b"</Deleted></", b"</Deleted><Error><Code>SlowDown</Code></Error></"),
            200,
            "DeleteObjects",
            False,
        ),
        (DELETED[:-1], 200, "DeleteObjects", False),
        (DELETED, 503, "DeleteObjects", False),
        (DELETED, 200, "ListObjectsV2", False),
        (b"<Error><Code>InternalError</Code></Error>", 200, "DeleteObjects", False),
    ],
)
def test_the_names_of_deleted_objects_are_not_parsed(
    body: bytes, status: int, operation: str, is_replaced: bool
) -> None:
    response = {"status_code": status, "body": body}
    answers.drop_deleted(SimpleNamespace(name=operation), response)
    assert response["body"] == (b"<DeleteResult/>" if is_replaced else body)
