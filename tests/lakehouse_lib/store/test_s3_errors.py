"""Requests to S3 that fail: what passes is tried again, and an error says what to do."""

import socket
import time
import traceback

import pytest
import urllib3
from botocore.exceptions import SSLError

from lakehouse_lib.errors import DeltaError, ObjectNotFoundError, StoreError, StoreRefusedError
from lakehouse_lib.store import open_store
from lakehouse_lib.store.s3 import client as s3_client
from tests.lakehouse_lib.store.s3_interference import at_first
from tests.s3_server import Answer, LostAnswer

pytestmark = pytest.mark.usefixtures("no_bucket_probed")

SECRET = "hunter2-secret"


# Retries.


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
def test_temporary_errors_are_retried(s3_server, store, answer, monkeypatch):
    monkeypatch.setattr(s3_client, "_FIRST_WAIT_SECONDS", 0.01)
    store.put_if_absent("_delta_log/0.json", b"0")
    s3_server.counted()
    with s3_server.interfering(at_first(2, answer)):
        assert store.put_if_absent("_delta_log/1.json", b"1")
    assert s3_server.counted() == {"PUT": 3}
    with s3_server.interfering(at_first(2, answer, verb="LIST")):
        assert len(list(store.list_from("_delta_log", "0"))) == 2
    with s3_server.interfering(at_first(2, answer, verb="GET")), store.open_input("_delta_log/0.json") as source:
        assert source.read() == b"0"


def test_a_truncated_answer_is_requested_again(s3_server, store):
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


def test_lasting_errors_fail_at_the_deadline(s3_server, location):
    store = open_store(location, {**s3_server.options, "retry_timeout": "500ms"})
    started = time.monotonic()
    with (
        s3_server.interfering(at_first(10**9, Answer.error(503, "SlowDown"), verb="GET")),
        pytest.raises(StoreError, match=r"x: S3 answered SlowDown.*tried for 0.5 s.*retry_timeout"),
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
def test_errors_of_the_server_have_hints(s3_server, store, answer, message):
    with s3_server.interfering(at_first(9, answer, verb="LIST")), pytest.raises(StoreError, match=message) as caught:
        list(store.list_from("_delta_log"))
    assert s3_server.counted()["LIST"] <= 2  # boto3 looks up the bucket's region
    assert store.root in str(caught.value)
    assert SECRET not in str(caught.value)
    assert SECRET not in str(caught.value.__cause__)
    assert not isinstance(caught.value, ObjectNotFoundError)


def test_a_missing_bucket(s3_server):
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
def test_invalid_settings_of_the_environment(s3_server, location, monkeypatch, tmp_path, variables, with_keys, message):
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


def test_a_closed_port(location, s3_server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        store = open_store(location, {**s3_server.options, "aws_endpoint_url": url, "retry_timeout": "0.2"})
        started = time.monotonic()
        with pytest.raises(StoreError, match=rf"{url} does not answer.*tried for 0.2 s.*endpoint_url"):
            store.read("x")
        assert time.monotonic() - started < 15


def test_a_server_without_answers(location, s3_server):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = {**s3_server.options, "aws_endpoint_url": url, "retry_timeout": "0.2", "timeout": "0.2"}
        started = time.monotonic()
        with pytest.raises(StoreError, match=rf"{url} does not answer \(ReadTimeoutError\)"):
            open_store(location, options).read("x")
        assert time.monotonic() - started < 15


@pytest.mark.parametrize("error", [SSLError(endpoint_url="x", error="bad record"), urllib3.exceptions.SSLError("bad")])
def test_a_broken_tls_connection_leaves_a_put_unknown(location, s3_server, error):
    """A fatal alert may come in place of the answer to a put that was stored."""
    store = open_store(location, {**s3_server.options, "retry_timeout": "0.3"})

    def breaking(_client):
        raise error

    with pytest.raises(StoreError) as caught:
        store._client.call("x", breaking, storing=True)
    assert not isinstance(caught.value, StoreRefusedError)


def test_a_read_is_retried_after_a_broken_tls_connection(store):
    answers = [urllib3.exceptions.SSLError("bad record"), b"all of it"]

    def breaking(_client):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert store._client.call("x", breaking) == b"all of it"


@pytest.mark.slow
def test_a_silent_server_gets_one_request_after_the_deadline(location, s3_server):
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
