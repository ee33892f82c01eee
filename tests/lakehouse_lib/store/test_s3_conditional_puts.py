"""Conditional puts: lost answers, servers that ignore the condition, and a single writer that needs none."""

import pytest

from lakehouse_lib.errors import StoreError, StoreRefusedError
from lakehouse_lib.fleet.lease import lease
from lakehouse_lib.store import open_store
from lakehouse_lib.store.s3 import s3_store as s3
from lakehouse_lib.store.s3.s3_store import S3Store
from tests.lakehouse_lib.store.s3_interference import at_first, ignoring
from tests.s3_server import Answer, LostAnswer

pytestmark = pytest.mark.usefixtures("no_bucket_probed")


@pytest.mark.parametrize("answers", ["ignored", "unknown"])
def test_a_server_without_conditional_puts_gets_no_commit(s3_server, store, answers):
    ignored = ignoring("If-None-Match")
    unknown = at_first(9, Answer.error(501, "NotImplemented"))
    with s3_server.interfering(ignored if answers == "ignored" else unknown):
        for _ in range(2):
            with pytest.raises(StoreRefusedError, match=r"ignores the condition.*table-\d.*single_writer=true"):
                store.put_if_absent("_delta_log/0.json", b"x")
    assert list(store.walk()) == []
    assert store.put_if_absent("_delta_log/0.json", b"x")


def test_a_bucket_is_probed_once_even_without_delete_permission(s3_server, store):
    with s3_server.interfering(at_first(9, Answer.error(403, "AccessDenied"), verb="DELETE")):
        assert store.put_if_absent("_delta_log/0.json", b"x")
    (left,) = [meta.path for meta in store.walk() if meta.path != "_delta_log/0.json"]
    assert left.startswith("_delta_log/.conditional-put-")
    assert [meta.path for meta in store.list_from("_delta_log", "0")] == ["_delta_log/0.json"]
    s3_server.counted()
    assert open_store(f"{store.root}-2", s3_server.options).put_if_absent("_delta_log/0.json", b"x")
    assert s3_server.counted() == {"PUT": 1}


def test_a_repeated_put_after_a_lost_answer_is_refused(s3_server, store):
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


def test_a_put_without_a_condition_does_not_hide_a_failed_condition(s3_server, store):
    with s3_server.interfering(at_first(1, Answer.error(412, "PreconditionFailed"))), pytest.raises(StoreError):
        store.put("x", b"1")


def test_an_object_larger_than_one_put_is_refused(s3_server, store, monkeypatch):
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
def test_a_foreign_overwrite_of_our_commit_is_detected(alone, s3_server, location, moment, monkeypatch):
    foreign = open_store(location, s3_server.options)
    assert alone.put_if_absent("_delta_log/0.json", b"ours")
    name = "_delta_log/1.json"
    if moment != "at once":
        name = "_delta_log/0.json"
        foreign.put(name, b"theirs")
    else:
        # Another writer's put comes between our put and our read.
        put = S3Store.put
        monkeypatch.setattr(
            S3Store, "put", lambda store, path, data: (put(store, path, data), put(foreign, path, b"theirs"))
        )
    with pytest.raises(StoreError, match=rf"{name}, which this process has put, was overwritten by another.*history"):
        alone.read(name) if moment == "when read" else alone.put_if_absent("_delta_log/1.json", b"ours, too")


def test_an_object_that_this_process_replaces_is_not_a_foreign_overwrite(alone):
    for run in ("run-1", "run-2"):
        with lease(alone, "/data/orders", run):  # puts the lease if absent, and replaces it
            pass
    with lease(alone, "/data/customers", "run-1"):
        pass


@pytest.mark.slow
def test_a_foreign_overwrite_of_an_unanswered_put_is_detected(s3_server, location):
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


def test_a_cleaned_up_commit_of_ours_is_not_an_overwrite(alone):
    assert alone.put_if_absent("_delta_log/0.json", b"0")
    alone.delete_many(["_delta_log/0.json"])
    assert alone.put_if_absent("_delta_log/1.json", b"1")
    assert alone.put_if_absent("_delta_log/2.json", b"2")
