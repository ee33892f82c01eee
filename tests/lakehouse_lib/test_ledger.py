"""The ledger returns only documents that were sealed under their own path with this key, and refuses others with a
reason."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lakehouse_lib.errors import InvalidArgumentError, LedgerError
from lakehouse_lib.ledger import Ledger, check_request, digest, new_request
from lakehouse_lib.store import open_store

KEY = "0123456789abcdef" * 2
ODD: dict[str, Any] = {"text": 'é\u2028"\\\ud800', "none": None, "n": -(2**70), "list": [True, {"b": 1, "a": 2}]}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return at(tmp_path)


def at(folder: Path, key: str = KEY) -> Ledger:
    return Ledger(open_store(folder), key)


def test_documents_are_read_unchanged(ledger: Ledger, tmp_path: Path) -> None:
    request = new_request()
    assert ledger.find(request, "plan") is None
    assert ledger.put(request, "plan", ODD) == ODD
    assert at(tmp_path).read(request, "plan") == ODD


def test_a_second_document_does_not_replace_the_first(ledger: Ledger) -> None:
    request = new_request()
    ledger.put(request, "record", {"n": 1})
    assert ledger.put(request, "record", {"n": 2}) == {"n": 1}
    with ThreadPoolExecutor(8) as pool:
        standing = list(pool.map(lambda n: ledger.put(request, "decision", {"n": n})["n"], range(32)))
    assert len(set(standing)) == 1


def test_the_error_for_a_missing_document_names_its_request(ledger: Ledger) -> None:
    request = new_request()
    with pytest.raises(LedgerError, match=f"the request {request} has no decision in the ledger"):
        ledger.read(request, "decision")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda sealed: {**sealed, "document": {"n": 2}}, "wrong seal: it was edited"),
        (lambda sealed: {**sealed, "seal": "0" * 64}, "wrong seal"),
        (lambda sealed: {**sealed, "seal": "é"}, "wrong seal"),
        (lambda sealed: {**sealed, "seal": ""}, "wrong seal"),
        (lambda sealed: {name: value for name, value in sealed.items() if name != "seal"}, "has no seal"),
        (lambda sealed: {**sealed, "seal": None}, "has no seal"),
        (lambda sealed: {**sealed, "format": 2}, "has format 2; expected 1"),
        (lambda sealed: {**sealed, "key": "00000000"}, "sealed with the key '00000000'; expected"),
        (lambda sealed: {**sealed, "seal": "\ud800"}, "wrong seal"),
        (lambda sealed: sealed["document"], "has no seal"),
        (lambda sealed: [], "has no seal"),
    ],
)
def test_an_edited_document_is_refused(ledger: Ledger, tmp_path: Path, edit: Any, reason: str) -> None:
    request = new_request()
    ledger.put(request, "plan", {"n": 1})
    file = tmp_path / request / "plan.json"
    file.write_text(json.dumps(edit(json.loads(file.read_text()))))
    for use in (ledger.read, ledger.find, lambda *where: ledger.put(*where, {"n": 1})):
        with pytest.raises(LedgerError, match=reason):
            use(request, "plan")


def test_a_truncated_document_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    request = new_request()
    ledger.put(request, "plan", {"n": 1})
    file = tmp_path / request / "plan.json"
    whole = file.read_text()
    for torn in (whole[:-5], whole.replace('"n": 1', '"n": NaN'), "\xff", "[" * 100_000 + "]" * 100_000):
        file.write_text(torn)
        with pytest.raises(LedgerError, match="is not JSON"):
            ledger.read(request, "plan")
    without_seal = json.dumps(json.loads(whole) | {"seal": ""})
    for edited in (whole, without_seal):
        file.write_text(edited.replace('"n": 1', '"n": 1e400'))
        with pytest.raises(LedgerError, match="wrong seal"):
            ledger.read(request, "plan")


def test_a_document_of_another_request_or_another_name_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    request, other = new_request(), new_request()
    ledger.put(request, "decision", {"answer": "Approve"})
    (tmp_path / other).mkdir()
    for copy, name in ((tmp_path / other / "decision.json", "decision"), (tmp_path / other / "plan.json", "plan")):
        shutil.copy(tmp_path / request / "decision.json", copy)
        with pytest.raises(LedgerError, match=f"was copied from '{request}/decision.json'"):
            ledger.read(other, name)
        # The seal includes the path.
        copy.write_text(copy.read_text().replace(f"{request}/decision", f"{other}/{name}"))
        with pytest.raises(LedgerError, match="wrong seal"):
            ledger.read(other, name)


def test_another_key_and_an_edit_are_different_errors(ledger: Ledger, tmp_path: Path) -> None:
    request = new_request()
    ledger.put(request, "plan", {"n": 1})
    with pytest.raises(LedgerError, match=r"sealed with the key .*the old key only"):
        at(tmp_path, KEY + "x").read(request, "plan")


@pytest.mark.parametrize("key", ["", "x" * 31])
def test_a_short_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"has {len(key)} characters; expected at least 32"):
        at(tmp_path, key)


@pytest.mark.parametrize(
    "request_id", ["", "..", "../x", "a" * 20 + "/..", "A" * 20, "g" * 20, "a" * 21, None, 7, "a" * 19 + "\n"]
)
def test_a_request_id_is_checked_before_it_is_a_path(ledger: Ledger, tmp_path: Path, request_id: Any) -> None:
    with pytest.raises(LedgerError, match="is not valid; expected 20 hexadecimal digits"):
        check_request(request_id)
    for use in (ledger.read, ledger.find, ledger.delete, lambda *where: ledger.put(*where, {})):
        with pytest.raises(LedgerError, match="is not valid"):
            use(request_id, "plan")
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_checked_before_it_is_a_path(ledger: Ledger) -> None:
    for name in ("../plan", "plan.json", "", "steps/x", "Plan"):
        with pytest.raises(InvalidArgumentError, match="is not a valid name"):
            ledger.find(new_request(), name)


def test_steps_are_added_and_each_is_verified(ledger: Ledger, tmp_path: Path) -> None:
    request = new_request()
    assert ledger.steps(request, "purge") == []
    for at_, kind in (("2", "purge"), ("1", "purge"), ("0", "delete")):
        ledger.put_step(request, kind, {"at": at_})
    assert ledger.steps(request, "purge") == [{"at": "1"}, {"at": "2"}]
    (file,) = (tmp_path / request / "steps").glob("delete-*.json")
    file.write_text(file.read_text().replace('"0"', '"9"'))
    with pytest.raises(LedgerError, match="wrong seal"):
        ledger.steps(request, "delete")
    ledger.delete_steps(request, "purge")
    assert ledger.steps(request, "purge") == []
    assert file.exists()


def test_a_question_is_about_one_request(ledger: Ledger) -> None:
    question = ("dag", "../../run é", "approve", -1)
    request, other = new_request(), new_request()
    assert ledger.find_claim(question) is None
    assert ledger.claim(question, request) == request
    assert ledger.claim(question, other) == ledger.find_claim(question) == request
    assert ledger.claim((*question[:3], 0), other) == other
    # Lists of parts with the same joined text are different requests.
    assert ledger.find_claim(("dag", "../../run é", "approve", "-1")) is None


def test_deleting_is_final_and_repeatable(ledger: Ledger) -> None:
    request = new_request()
    ledger.put(request, "keys", {"id": 7})
    ledger.delete(request, "keys")
    ledger.delete(request, "keys")
    assert ledger.find(request, "keys") is None


def test_requests_are_listed_by_the_documents_that_they_have(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.requests("keys") == []
    with_keys = sorted(new_request() for _ in range(3))
    for request in with_keys:
        ledger.put(request, "keys", {})
        ledger.put_step(request, "purge", {})
    ledger.put(new_request(), "plan", {})
    ledger.claim(("keys",), with_keys[0])
    (tmp_path / "keys.json").write_text("{}")
    assert ledger.requests("keys") == with_keys


def test_hashes_need_the_key_and_differ_between_types(ledger: Ledger, tmp_path: Path) -> None:
    other = at(tmp_path, KEY[::-1])
    hashes = {ledger.keyed_hash("customer", 2), ledger.keyed_hash("customer", "2"), other.keyed_hash("customer", 2)}
    assert len(hashes | {ledger.keyed_digest({"id": 2}), other.keyed_digest({"id": 2}), digest({"id": 2})}) == 6
    assert ledger.keyed_hash("customer", 2) == at(tmp_path).keyed_hash("customer", 2)


def test_the_order_of_keys_is_not_part_of_a_digest() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}) != digest({"a": 1, "b": ["2"]})
