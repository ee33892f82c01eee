"""The S3 store's own behaviour: requests, connections, listings, and allowed locations."""

import dataclasses

import pytest

from lakehouse_lib.errors import PathOutsideTableError, StoreError
from lakehouse_lib.log import file_names as names
from lakehouse_lib.store import open_store
from lakehouse_lib.store.s3 import client as s3_client
from tests.s3_server import Answer
from tests.store_contract import check_read_only

pytestmark = pytest.mark.usefixtures("no_bucket_probed")


def test_requests_of_each_verb(s3_server, store):
    counted = {}

    def count(name, act):
        s3_server.counted()
        act()
        counted[name] = s3_server.counted()

    count("the first commit", lambda: store.put_if_absent("_delta_log/0.json", b"0"))
    count("a commit", lambda: store.put_if_absent("_delta_log/1.json", b"1"))
    count("put", lambda: store.put("x", b"1"))
    count("put_if_match", lambda: store.put_if_match("x", b"2", b"1"))
    count("read", lambda: store.read("x"))
    count("head", lambda: store.head("x"))
    count("list_from", lambda: list(store.list_from("_delta_log", "0")))
    count("walk", lambda: list(store.walk()))
    count("delete_many", lambda: store.delete_many(f"gone/{number}" for number in range(2500)))
    count("sync", lambda: store.sync(["x"]))

    def write(size):
        with store.open_output(f"file-{size}") as sink:
            sink.write(bytes(size))

    def read(size):
        with store.open_input(f"file-{size}") as source:
            assert source.size() == size

    count("open_output, small", lambda: write(1000))
    count("open_output, 12 MiB", lambda: write(12 << 20))
    count("open_input, small", lambda: read(1000))
    count("open_input, 12 MiB", lambda: read(12 << 20))
    assert counted == {
        "the first commit": {"DELETE": 1, "PUT": 3},
        "a commit": {"PUT": 1},
        "put": {"PUT": 1},
        "put_if_match": {"GET": 1, "PUT": 1},
        "read": {"GET": 1},
        "head": {"HEAD": 1},
        "list_from": {"LIST": 1},
        "walk": {"LIST": 1},
        "delete_many": {"DELETE": 3},
        "sync": {},
        "open_output, small": {"PUT": 1},
        "open_output, 12 MiB": {"POST": 2, "PUT": 2},
        "open_input, small": {"GET": 1},
        "open_input, 12 MiB": {"GET": 1, "HEAD": 1},
    }


@pytest.mark.slow
def test_connections_of_unused_options_are_closed(location, s3_server, monkeypatch):
    """A sensor that waits for days with a role gets other credentials every hour."""
    monkeypatch.setattr(s3_client, "_connections", {})
    first = open_store(location, s3_server.options)
    first.put("x", b"1")
    for number in range(2 * s3_client._MOST_KEPT):
        other = {**s3_server.options, "aws_session_token": f"token{number}"}
        assert open_store(location, other).read("x") == b"1"
        assert first.read("x") == b"1"
    (connections,) = s3_client._connections.values()
    assert len(connections) == s3_client._MOST_KEPT
    assert first._options in connections


# Listings.


def test_listings_continue_over_pages(s3_server, store):
    names = [f"_delta_log/{number:020d}.json" for number in range(10)]
    for name in names:
        store.put(name, b"")
    store.put("_delta_log/sub/x", b"")

    def three_a_page(request, forward, environ):
        if request.verb == "LIST":
            environ["QUERY_STRING"] += "&max-keys=3"
        return forward()

    with s3_server.interfering(three_a_page):
        assert [meta.path for meta in store.list_from("_delta_log", f"{2:020d}")] == names[2:]
        assert {meta.path for meta in store.walk()} == {*names, "_delta_log/sub/x"}
        assert s3_server.counted()["LIST"] >= 6


@pytest.mark.parametrize("version", [0, 1, 9, 10, 11])
def test_a_listing_starts_at_its_start_key(s3_server, store, version):
    """A log of a hundred thousand commits has a hundred pages; the commits after a checkpoint have one."""
    for number in range(12):
        store.put(names.commit(number), b"")
    answered = []

    def interfere(_request, forward, _environ):
        answer = forward()
        answered.append(answer.body.count(b"<Key>"))
        return answer

    with s3_server.interfering(interfere):
        listed = [meta.path for meta in store.list_from(names.LOG, names.first_name(version))]
    assert listed == [names.commit(number) for number in range(version, 12)]
    assert answered == [len(listed)]


def test_a_listing_out_of_order_is_refused(s3_server, store):
    for name in "ab":
        store.put(f"_delta_log/{name}", b"")

    def backwards(request, forward, _environ):
        answer = forward()
        if request.verb == "LIST":
            body = answer.body.replace(b"log/a<", b"log/Z<").replace(b"log/b<", b"log/a<").replace(b"log/Z<", b"log/b<")
            return dataclasses.replace(answer, body=body)
        return answer

    with s3_server.interfering(backwards), pytest.raises(StoreError, match="lists 'a' after 'b'"):
        list(store.list_from("_delta_log"))


def test_objects_that_mark_folders_are_ignored(s3_server, store):
    import boto3

    key, secret = s3_server.options["aws_access_key_id"], s3_server.options["aws_secret_access_key"]
    client = boto3.client(
        "s3",
        endpoint_url=s3_server.url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
    )
    prefix = store.root.removeprefix("s3://bucket/")
    for name in ("/", "/_delta_log/", "/p=1/"):
        client.put_object(Bucket="bucket", Key=prefix + name, Body=b"")
    client.close()
    store.put("_delta_log/0.json", b"")
    assert [meta.path for meta in store.walk()] == ["_delta_log/0.json"]
    assert [meta.path for meta in store.list_from("_delta_log")] == ["_delta_log/0.json"]


def test_keys_without_a_valid_path_are_listed_and_never_changed(s3_server, store):
    others = open_store("s3://bucket", s3_server.options)
    prefix = store.root.removeprefix("s3://bucket/")
    others._client.call("x", lambda client: client.put_object(Bucket="bucket", Key=f"{prefix}//old.parquet", Body=b"1"))
    store.put("file", b"")
    assert {meta.path for meta in store.walk()} == {"file", f"{store.root}//old.parquet"}
    for verb in (store.read, lambda path: store.delete_many([path])):
        with pytest.raises(PathOutsideTableError):
            verb(f"{store.root}//old.parquet")


@pytest.mark.parametrize("token", [b"", b"<NextContinuationToken>again</NextContinuationToken>"])
def test_an_endless_listing_is_refused(s3_server, store, token):
    store.put("_delta_log/a", b"")
    pages = []

    def endless(_request, forward, _environ):
        if not pages:
            answer = forward()
            body = answer.body.replace(b"<IsTruncated>false<", token + b"<IsTruncated>true<")
            headers = [(name, value) for name, value in answer.headers if name.lower() != "content-length"]
            pages.append(Answer(answer.status, headers, body))
        return pages[0]

    with s3_server.interfering(endless), pytest.raises(StoreError, match="cannot be continued"):
        list(store.walk())


def test_a_table_may_be_a_whole_bucket(s3_server):
    store = open_store("s3://other-bucket", s3_server.options)
    assert store.root == "s3://other-bucket"
    assert store.put_if_absent("_delta_log/0.json", b"x")
    with store.open_output("a/b") as sink:
        sink.write(b"y")
    assert {meta.path for meta in store.walk()} == {"_delta_log/0.json", "a/b"}
    store.delete_many(["_delta_log/0.json", "a/b"])


# Allowed locations.


def test_files_of_allowed_locations_are_read_and_never_changed(s3_server, location):
    other = open_store("s3://other-bucket/clone/source", s3_server.options)
    other.put("file", b"theirs")
    roots = "s3://other-bucket/clone/source s3a://bucket/none/"
    store = open_store(location, {**s3_server.options, "allowed_roots": roots})
    path = "s3://other-bucket/clone/source/file"
    assert store.allowed_roots == ("s3://other-bucket/clone/source", "s3://bucket/none")
    check_read_only(store, path, b"theirs")
    for outside in ("source2/file", "source/../file", "source"):
        with pytest.raises(PathOutsideTableError):
            store.read(f"s3://other-bucket/clone/{outside}")
    assert other.read("file") == b"theirs"
