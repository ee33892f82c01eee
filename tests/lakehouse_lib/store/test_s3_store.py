"""The S3 store's own behaviour: requests, lost answers, refusals, and errors with hints."""

import dataclasses
import socket
import time
import traceback

import pytest
import urllib3
from botocore.exceptions import SSLError

from lakehouse_lib.errors import DeltaError, ObjectNotFoundError, PathOutsideTableError, StoreError, StoreRefusedError
from lakehouse_lib.log import file_names as names
from lakehouse_lib.store import open_store
from lakehouse_lib.store.s3 import client as s3_client
from lakehouse_lib.store.s3 import conditional_puts
from lakehouse_lib.store.s3 import s3_store as s3
from tests.s3_server import Answer, LostAnswer
from tests.store_contract import check_read_only

SECRET = "hunter2-secret"


@pytest.fixture(autouse=True)
def _no_bucket_probed(monkeypatch):
    monkeypatch.setattr(conditional_puts, "_probed_buckets", set())


@pytest.fixture
def store(s3_server, location):
    return open_store(location, s3_server.options)


def at_first(times, answer, *, verb="PUT"):
    """Answer the first requests of a verb in place of the server."""
    left = [times]

    def interfere(request, forward, _environ):
        if request.verb == verb and left[0]:
            left[0] -= 1
            return answer
        return forward()

    return interfere


def ignoring(*headers):
    def interfere(_request, forward, environ):
        for header in headers:
            environ.pop(f"HTTP_{header.upper().replace('-', '_')}", None)
        return forward()

    return interfere


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


# Conditional puts.


@pytest.mark.parametrize("answers", ["ignored", "unknown"])
def test_a_server_that_refuses_no_put_gets_no_commit(s3_server, store, answers):
    ignored = ignoring("If-None-Match")
    unknown = at_first(9, Answer.error(501, "NotImplemented"))
    with s3_server.interfering(ignored if answers == "ignored" else unknown):
        for _ in range(2):
            with pytest.raises(StoreRefusedError, match=r"ignores the condition.*table-\d.*single_writer=true"):
                store.put_if_absent("_delta_log/0.json", b"x")
    assert list(store.walk()) == []
    assert store.put_if_absent("_delta_log/0.json", b"x")


def test_the_probe_is_made_once_a_bucket_and_may_stay_where_nothing_may_be_deleted(s3_server, store):
    with s3_server.interfering(at_first(9, Answer.error(403, "AccessDenied"), verb="DELETE")):
        assert store.put_if_absent("_delta_log/0.json", b"x")
    (left,) = [meta.path for meta in store.walk() if meta.path != "_delta_log/0.json"]
    assert left.startswith("_delta_log/.conditional-put-")
    assert [meta.path for meta in store.list_from("_delta_log", "0")] == ["_delta_log/0.json"]
    s3_server.counted()
    assert open_store(f"{store.root}-2", s3_server.options).put_if_absent("_delta_log/0.json", b"x")
    assert s3_server.counted() == {"PUT": 1}


def test_a_lost_answer_is_a_lost_race_whose_winner_is_us(s3_server, store):
    store.put_if_absent("_delta_log/0.json", b"0")
    lost = []

    def interfere(request, forward, _environ):
        answer = forward()
        if request.key.endswith("1.json") and not lost:
            lost.append(request)
            raise LostAnswer
        return answer

    with s3_server.interfering(interfere):
        assert not store.put_if_absent("_delta_log/1.json", b"ours")
    assert lost
    assert store.read("_delta_log/1.json") == b"ours"


@pytest.mark.parametrize(
    "answer",
    [
        Answer.error(409, "ConditionalRequestConflict"),
        Answer.error(429, "TooManyRequests"),
        Answer.error(503, "SlowDown"),
        Answer.error(500, "InternalError"),
        Answer.error(400, "RequestTimeout"),
    ],
    ids=lambda answer: answer.status,
)
def test_what_passes_is_tried_again(s3_server, store, answer):
    store.put_if_absent("_delta_log/0.json", b"0")
    s3_server.counted()
    with s3_server.interfering(at_first(2, answer)):
        assert store.put_if_absent("_delta_log/1.json", b"1")
    assert s3_server.counted() == {"PUT": 3}
    with s3_server.interfering(at_first(2, answer, verb="LIST")):
        assert len(list(store.list_from("_delta_log", "0"))) == 2
    with s3_server.interfering(at_first(2, answer, verb="GET")), store.open_input("_delta_log/0.json") as source:
        assert source.read() == b"0"


def test_half_an_answer_is_asked_for_again(s3_server, store):
    store.put("x", bytes(100_000))
    left = [2]

    def interfere(request, forward, environ):
        answer = forward()
        if request.verb == "GET" and left[0]:
            left[0] -= 1
            environ["werkzeug.socket"].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf")
            raise LostAnswer
        return answer

    with s3_server.interfering(interfere):
        assert store.read("x") == bytes(100_000)
    assert left == [0]


def test_what_lasts_is_given_up_at_the_deadline(s3_server, location):
    store = open_store(location, {**s3_server.options, "retry_timeout": "1500ms"})
    started = time.monotonic()
    with (
        s3_server.interfering(at_first(10**9, Answer.error(503, "SlowDown"), verb="GET")),
        pytest.raises(StoreError, match=r"x: S3 answered SlowDown.*tried for 1.5 s.*retry_timeout"),
    ):
        store.read("x")
    assert time.monotonic() - started < 20
    assert s3_server.counted()["GET"] < 12


@pytest.mark.parametrize("times", [1, 9])
def test_errors_of_single_keys(s3_server, store, times):
    names = [f"f/{number}" for number in range(5)]
    for name in names:
        store.put(name, b"")
    key = store.root.removeprefix("s3://bucket/") + "/f/3"
    code = "InternalError" if times == 1 else "AccessDenied"
    error = f"<DeleteResult><Error><Key>{key}</Key><Code>{code}</Code></Error></DeleteResult>".encode()
    left = [times]

    def interfere(request, forward, _environ):
        if request.verb == "DELETE" and left[0]:
            left[0] -= 1
            forward()
            return Answer("200 OK", [("Content-Type", "application/xml"), ("Content-Length", str(len(error)))], error)
        return forward()

    with s3_server.interfering(interfere):
        if times == 1:
            store.delete_many(names)
            assert list(store.walk()) == []
        else:
            with pytest.raises(StoreError, match=r"1 of 5 objects were not deleted, among them f/3.*AccessDenied"):
                store.delete_many(names)


# Errors.


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer.error(403, "InvalidAccessKeyId"), r"InvalidAccessKeyId.*does not know the access key.*AWS_ACCESS_KEY"),
        (Answer.error(403, "SignatureDoesNotMatch"), r"SignatureDoesNotMatch.*secret key does not belong"),
        (Answer.error(403, "AccessDenied"), r"AccessDenied.*Let these credentials"),
        (Answer.error(400, "EntityTooLarge"), r"EntityTooLarge.*commit fewer files"),
        (Answer.error(413, "413"), r"EntityTooLarge.*commit fewer files"),
        (Answer.error(400, "ExpiredToken"), r"ExpiredToken.*expired"),
        (Answer.error(403, "RequestTimeTooSkewed"), r"RequestTimeTooSkewed.*clock"),
        (Answer.error(404, "NoSuchBucket"), r"NoSuchBucket.*Create the bucket"),
        (
            Answer.error(400, "AuthorizationHeaderMalformed", more="<Region>mars-1</Region>"),
            r"The bucket is in mars-1.*AWS_REGION",
        ),
        (Answer.error(301, "PermanentRedirect"), r"PermanentRedirect.*region"),
        (Answer.error(403, "AccessDenied", f"you said {SECRET}"), r"you said \*\*\*"),
        (
            Answer("404 Not Found", [("Content-Length", "6")], b"<html>"),
            r"endpoint_url.*is not the address of an S3 server",
        ),
    ],
    ids=lambda value: value.status if isinstance(value, Answer) else "",
)
def test_an_error_says_what_to_do(s3_server, store, answer, message):
    with s3_server.interfering(at_first(9, answer, verb="LIST")), pytest.raises(StoreError, match=message) as caught:
        list(store.list_from("_delta_log"))
    assert s3_server.counted()["LIST"] <= 2  # boto3 looks up the bucket's region
    assert store.root in str(caught.value)
    assert SECRET not in str(caught.value)
    assert SECRET not in str(caught.value.__cause__)
    assert not isinstance(caught.value, ObjectNotFoundError)


def test_a_bucket_that_is_not_there(s3_server):
    store = open_store("s3://no-such-bucket/t", s3_server.options)
    for touch in (lambda: list(store.walk()), lambda: store.put("x", b""), lambda: store.put_if_absent("x", b"")):
        with pytest.raises(StoreError, match=r"NoSuchBucket.*Create the bucket"):
            touch()


def test_no_credentials(s3_server, location):
    options = {name: value for name, value in s3_server.options.items() if "access_key" not in name}
    with pytest.raises(StoreError, match=r"no credentials.*AWS_ACCESS_KEY_ID"):
        open_store(location, options).read("x")
    assert s3_server.counted() == {}


def test_credentials_of_the_environment(s3_server, location, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options = {name: value for name, value in s3_server.options.items() if "access_key" not in name}
    options["retry_timeout"] = "4"  # new options, so a new client
    store = open_store(location, options)
    store.put("x", b"1")
    with store.open_output("y") as sink:
        sink.write(b"2")
    assert all("from-the-environment" in request.headers["authorization"] for request in s3_server.requests)


@pytest.mark.parametrize(
    ("variables", "with_keys", "message"),
    [
        ({"AWS_REGION": "no region"}, True, r"AWS_REGION is 'no region'.*eu-central-1"),
        ({"AWS_DEFAULT_REGION": "no_region"}, False, r"AWS_DEFAULT_REGION is 'no_region'.*eu-central-1"),
        ({"AWS_PROFILE": "nobodys"}, True, r"profile \(nobodys\).*Unset AWS_PROFILE"),
        ({"AWS_PROFILE": "nobodys"}, False, r"profile \(nobodys\).*Unset AWS_PROFILE"),
        (
            {"AWS_ACCESS_KEY_ID": "me"},
            False,
            r"missing: AWS_SECRET_ACCESS_KEY.*The key id and the secret key belong together.*Give access_key_id",
        ),
        (
            {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": f"{SECRET}\n"},
            False,
            r"boto3 found \(env\) has a line break",
        ),
        ({"AWS_CONFIG_FILE": "{broken}"}, False, r"parse config file: .*/broken.*Correct that file"),
        ({"AWS_SHARED_CREDENTIALS_FILE": "{broken}"}, True, r"parse config file: .*AWS_SHARED_CREDENTIALS_FILE"),
        ({"AWS_CONFIG_FILE": "{region}"}, False, r"region_name 'of no kind'.*or AWS_REGION.*a profile may name one"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_surroundings_that_make_no_sense(s3_server, location, monkeypatch, tmp_path, variables, with_keys, message):
    (tmp_path / "broken").write_text(f"aws_secret_access_key = {SECRET}\n[default\n")
    (tmp_path / "region").write_text("[default]\nregion = of no kind\n")
    dropped = ("region",) if with_keys else ("region", "access_key_id", "secret_access_key")
    options = {name: option for name, option in s3_server.options.items() if not name.endswith(dropped)}
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(broken=tmp_path / "broken", region=tmp_path / "region"))
    monkeypatch.setattr(s3_client, "_connections", {})
    for act in (
        lambda store: store.read("x"),
        lambda store: store.open_output("x"),
        lambda store: store.put_if_absent("x", b""),
    ):
        with pytest.raises(DeltaError, match=message) as caught:
            act(open_store(location, options))
        assert location in str(caught.value)
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert s3_server.counted() == {}


def test_nobody_listens(location, s3_server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        store = open_store(location, {**s3_server.options, "aws_endpoint_url": url, "retry_timeout": "0.5"})
        started = time.monotonic()
        with pytest.raises(StoreError, match=rf"{url} does not answer.*tried for 0.5 s.*endpoint_url"):
            store.read("x")
        assert time.monotonic() - started < 15


def test_nobody_answers(location, s3_server):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = {**s3_server.options, "aws_endpoint_url": url, "retry_timeout": "0.5", "timeout": "0.4"}
        started = time.monotonic()
        with pytest.raises(StoreError, match=rf"{url} does not answer \(ReadTimeoutError\)"):
            open_store(location, options).read("x")
        assert time.monotonic() - started < 15


def test_a_put_without_a_condition_does_not_hide_a_failed_condition(s3_server, store):
    with s3_server.interfering(at_first(1, Answer.error(412, "PreconditionFailed"))), pytest.raises(StoreError):
        store.put("x", b"1")


def test_what_one_put_cannot_carry_is_not_sent(s3_server, store, monkeypatch):
    monkeypatch.setattr(s3, "MOST_BYTES_A_PUT", 10)
    with pytest.raises(StoreRefusedError, match=r"has 11 bytes.*Commit fewer files"):
        store.put_if_absent("_delta_log/0.json", bytes(11))
    assert s3_server.counted() == {}


@pytest.mark.parametrize("doubt", [False, True])
def test_a_refusal_is_certain_unless_an_answer_was_lost_before_it(s3_server, store, doubt):
    store.put_if_absent("_delta_log/0.json", b"0")
    answers = [Answer.error(500, "InternalError")] * doubt + [Answer.error(403, "AccessDenied")] * 9
    with (
        s3_server.interfering(lambda *_: answers.pop(0)),
        pytest.raises(StoreError, match="AccessDenied") as caught,
    ):
        store.put_if_absent("_delta_log/1.json", b"1")
    assert isinstance(caught.value, StoreRefusedError) is not doubt


@pytest.mark.parametrize("error", [SSLError(endpoint_url="x", error="bad record"), urllib3.exceptions.SSLError("bad")])
def test_a_secure_line_that_breaks_leaves_in_doubt_what_was_stored(location, s3_server, error):
    """A fatal alert may come in place of the answer to a put that was stored."""
    store = open_store(location, {**s3_server.options, "retry_timeout": "0.3"})

    def breaking(_client):
        raise error

    with pytest.raises(StoreError) as caught:
        store._client.ask("x", breaking, storing=True)
    assert not isinstance(caught.value, StoreRefusedError)


def test_a_secure_line_that_breaks_within_an_object_is_asked_again(store):
    answers = [urllib3.exceptions.SSLError("bad record"), b"all of it"]

    def breaking(_client):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert store._client.ask("x", breaking) == b"all of it"


@pytest.mark.slow
def test_connections_of_options_that_nobody_uses_any_more_are_given_up(location, s3_server, monkeypatch):
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


def test_a_server_that_was_silent_until_the_deadline_is_asked_once_a_request(location, s3_server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        store = open_store(location, {**s3_server.options, "aws_endpoint_url": url, "retry_timeout": "2"})
        started = time.monotonic()
        for number in range(20):
            message = "tried once, because it did not answer before" if number else "tried for 2 s"
            with pytest.raises(StoreError, match=f"does not answer.*{message}"):
                store.read("x")
        assert time.monotonic() - started < 20


# Listings.


def test_listings_go_on_over_pages(s3_server, store):
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
def test_the_server_is_not_asked_for_what_is_before_a_listing(s3_server, store, version):
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


def test_objects_that_mark_folders_are_no_objects(s3_server, store):
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


def test_keys_that_no_path_names_are_listed_by_their_location_and_never_touched(s3_server, store):
    others = open_store("s3://bucket", s3_server.options)
    prefix = store.root.removeprefix("s3://bucket/")
    others._client.ask("x", lambda client: client.put_object(Bucket="bucket", Key=f"{prefix}//old.parquet", Body=b"1"))
    store.put("file", b"")
    assert {meta.path for meta in store.walk()} == {"file", f"{store.root}//old.parquet"}
    for verb in (store.read, lambda path: store.delete_many([path])):
        with pytest.raises(PathOutsideTableError):
            verb(f"{store.root}//old.parquet")


@pytest.mark.parametrize("token", [b"", b"<NextContinuationToken>again</NextContinuationToken>"])
def test_a_listing_without_an_end_is_refused(s3_server, store, token):
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


# Other servers and regions.


def test_files_of_allowed_locations_are_read_and_never_touched(s3_server, location):
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


# A server without conditional puts, and an option by which the user promises a single writer.


@pytest.fixture
def alone(s3_server, location):
    with s3_server.interfering(ignoring("If-None-Match", "If-Match")):
        yield open_store(location, {**s3_server.options, "single_writer": "true"})


def test_a_single_writer_needs_no_condition(alone, s3_server):
    assert alone.put_if_absent("_delta_log/0.json", b"0")
    assert not alone.put_if_absent("_delta_log/0.json", b"other")
    assert alone.read("_delta_log/0.json") == b"0"
    assert alone.put_if_absent("_delta_log/1.json", b"1")
    assert all("if-none-match" not in request.headers for request in s3_server.requests)


@pytest.mark.parametrize("moment", ["when read", "by the next commit", "at once"])
def test_a_foreign_overwrite_of_ours_is_found(alone, s3_server, location, moment):
    foreign = open_store(location, s3_server.options)
    assert alone.put_if_absent("_delta_log/0.json", b"ours")
    name = "_delta_log/1.json"
    if moment != "at once":
        name = "_delta_log/0.json"
        foreign.put(name, b"theirs")
    else:
        # Another writer's put comes between our put and our read.
        put = alone.put
        alone.put = lambda path, data: (put(path, data), foreign.put(path, b"theirs"))
    with pytest.raises(StoreError, match=rf"{name}, which this process has put, was overwritten by another.*history"):
        alone.read(name) if moment == "when read" else alone.put_if_absent("_delta_log/1.json", b"ours, too")


def test_a_foreign_overwrite_of_what_was_put_without_an_answer_is_found(s3_server, location):
    def losing(request, forward, environ):
        for header in ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"):
            environ.pop(header, None)
        answer = forward()
        if request.verb == "PUT" and request.key.endswith("0.json"):
            raise LostAnswer
        return answer

    alone = open_store(location, {**s3_server.options, "single_writer": "true", "retry_timeout": "0.3"})
    with s3_server.interfering(losing):
        with pytest.raises(StoreError, match="does not answer"):
            alone.put_if_absent("_delta_log/0.json", b"ours")
        open_store(location, s3_server.options).delete_many(["_delta_log/0.json"])
        with pytest.raises(StoreError, match="does not answer"):
            open_store(location, {**s3_server.options, "retry_timeout": "0.3"}).put("_delta_log/0.json", b"theirs")
        with pytest.raises(StoreError, match="was overwritten by another"):
            alone.put_if_absent("_delta_log/1.json", b"ours, too")


def test_a_commit_of_ours_that_was_cleaned_up_is_no_overwrite(alone):
    assert alone.put_if_absent("_delta_log/0.json", b"0")
    alone.delete_many(["_delta_log/0.json"])
    assert alone.put_if_absent("_delta_log/1.json", b"1")
    assert alone.put_if_absent("_delta_log/2.json", b"2")
