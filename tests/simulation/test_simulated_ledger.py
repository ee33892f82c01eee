"""The ledger of the simulation: which commits made by hand it accepts, and which are violations."""

from __future__ import annotations

import json

import pytest

from lakehouse_lib.errors import (
    CommitFailedError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    TooManyRetriesError,
)
from lakehouse_lib.log import file_names
from tests.simulation.ledger import Ledger, Terms, Violation
from tests.simulation.refusals import Attempt

pytestmark = pytest.mark.slow

_HOUR = 3_600_000


class _Table:
    """Commits made by hand, with a ledger that watches them."""

    def __init__(self, *, reorders_appends: bool = False) -> None:
        self.now = 0.0
        self.ledger = Ledger(lambda: self.now, Terms(_HOUR, 24 * _HOUR, reorders_appends))

    def file(self, path: str, **rows: list[int]) -> dict[str, object]:
        self.ledger.watch(path, json.dumps(rows).encode())
        return {"add": {"path": path}}

    def commit(self, version: int, read: int, operation: dict[str, object], *actions: dict[str, object]) -> None:
        info = {"commitInfo": {"simulated": {"id": f"{version}", "table": "", **operation}, "readVersion": read}}
        lines = "\n".join(json.dumps(action) for action in (info, *actions))
        self.ledger.watch(file_names.commit(version), lines.encode())


def _append(**rows: list[int]) -> dict[str, object]:
    return {"kind": "append", "rows": rows}


def test_the_ledger_requires_the_order_of_the_log() -> None:
    for reorders, holds in ((False, False), (True, True)):
        table = _Table(reorders_appends=reorders)
        table.commit(0, -1, _append(x=[0, 0]), table.file("a", x=[0, 0]))
        table.commit(1, 0, _append(y=[0, 0]), table.file("b", y=[0, 0]))
        # It was planned on version 0 and does not change the row that was added meanwhile.
        delete = {"kind": "delete", "key": 0}
        if holds:
            table.commit(2, 0, delete, {"remove": {"path": "a"}})
            assert [version for version, _ in table.ledger.serial] == [0, 2, 1]
        else:
            with pytest.raises(Violation, match=r"wanted \{\}, found \{'y'"):
                table.commit(2, 0, delete, {"remove": {"path": "a"}})


def test_the_ledger_refuses_to_reorder_commits_that_were_read() -> None:
    table = _Table(reorders_appends=True)
    table.commit(0, -1, _append(x=[0, 0]), table.file("a", x=[0, 0]))
    table.commit(1, 0, _append(y=[0, 0]), table.file("b", y=[0, 0]))
    with pytest.raises(Violation, match=r"found \{'y'"):
        table.commit(2, 1, {"kind": "delete", "key": 0}, {"remove": {"path": "a"}})


def _insert(key: int | None, **rows: list[int]) -> dict[str, object]:
    return {"kind": "insert", "key": key, "rows": rows}


@pytest.mark.parametrize("key", [0, None])
def test_the_ledger_checks_the_rows_that_an_insert_has_read(key: int | None) -> None:
    for reorders in (False, True):
        table = _Table(reorders_appends=reorders)
        table.commit(0, -1, _append(x=[0, 4]), table.file("a", x=[0, 4]))
        table.commit(1, 0, {"kind": "delete", "key": 0}, {"remove": {"path": "a"}})
        # It counts a row that is deleted; a deletion must always be seen.
        with pytest.raises(Violation, match=r"wanted \{'y': \(1, 0\)\}, found \{'y': \(1, 5\)\}"):
            table.commit(2, 0, _insert(key, y=[1, 0]), table.file("b", y=[1, 5]))
        table.commit(2, 1, _insert(key, z=[1, 0]), table.file("c", z=[1, 0]))


def test_the_ledger_lets_an_insert_miss_only_blind_appends() -> None:
    table = _Table(reorders_appends=True)
    table.commit(0, -1, _append(x=[0, 0]), table.file("a", x=[0, 0]))
    table.commit(1, 0, _append(y=[0, 0]), table.file("b", y=[0, 0]))
    table.commit(2, 0, _insert(0, z=[0, 0]), table.file("c", z=[0, 1]))
    assert [version for version, _ in table.ledger.serial] == [0, 2, 1]
    with pytest.raises(Violation, match=r"wanted \{'u': \(1, 4\)\}, found \{'u': \(1, 1\)\}"):
        table.commit(3, 0, _insert(0, u=[1, 0]), table.file("d", u=[1, 1]))


@pytest.mark.parametrize(
    ("kind", "key", "removes", "error", "has_reason"),
    [
        ("delete", 0, "a", ConcurrentAppendError, True),
        ("delete", 2, "a", ConcurrentAppendError, False),  # no row of that key was added
        ("append", None, "", ConcurrentAppendError, False),  # it has read nothing
        ("insert", None, "", ConcurrentAppendError, True),
        ("insert", 0, "", ConcurrentDeleteReadError, True),
        ("insert", 1, "", ConcurrentDeleteReadError, False),
        ("compact", None, "a", ConcurrentDeleteDeleteError, True),
        ("compact", None, "b", ConcurrentDeleteDeleteError, False),
        ("count", None, "", MetadataChangedError, False),
        ("append", None, "", ConcurrentTransactionError, False),
        ("append", None, "", TooManyRetriesError, False),
        ("append", None, "", CommitFailedError, False),  # nothing was cleaned up
    ],
)
def test_the_ledger_requires_a_reason_for_each_conflict(
    kind: str, key: int | None, removes: str, error: type[CommitFailedError], has_reason: bool
) -> None:
    table = _Table()
    table.commit(0, -1, _append(x=[0, 0]), table.file("a", x=[0, 0]))
    table.commit(1, 0, {"kind": "increment", "key": 0}, table.file("b", x=[0, 1]), {"remove": {"path": "a"}})
    table.commit(2, 1, _append(y=[1, 0]), table.file("c", y=[1, 0]))
    operation = {"kind": kind, "key": key, "id": "refused", "table": ""}
    attempt = Attempt(operation, 0, frozenset(removes), None, 1)
    refused = error("no", version=1)
    if has_reason:
        table.ledger.conflicted(attempt, refused)
    else:
        with pytest.raises(Violation, match="is refused without a conflict"):
            table.ledger.conflicted(attempt, refused)


def test_the_ledger_refuses_a_commit_of_the_deleted_table() -> None:
    table = _Table()
    table.commit(0, -1, _append(x=[0, 0]), table.file("a", x=[0, 0]))
    with pytest.raises(Violation, match="belongs to the table that was deleted"):
        table.commit(1, 0, {"table": "another", **_append(y=[0, 0])}, table.file("b", y=[0, 0]))


def test_the_ledger_detects_duplicate_rows_gaps_and_missing_files() -> None:
    table = _Table()
    table.commit(0, -1, _append(x=[0, 0]), table.file("a", x=[0, 0]))
    with pytest.raises(Violation, match="twice"):
        table.commit(1, 0, {"kind": "nothing"}, table.file("b", x=[0, 0]))
    with pytest.raises(Violation, match="when 0 is the latest version"):
        table.commit(2, 0, _append(), table.file("c"))
    with pytest.raises(Violation, match="not stored"):
        table.commit(1, 0, _append(z=[0, 0]), {"add": {"path": "d"}})


def test_the_ledger_protects_files_within_their_retention() -> None:
    table = _Table()
    table.commit(0, -1, _append(x=[0, 0]), table.file("a", x=[0, 0]))
    table.commit(1, 0, {"kind": "delete", "key": 0}, {"remove": {"path": "a"}})
    table.file("waiting", y=[0, 0])
    guarded = {"a": "version 0 may still be read", "waiting": "before its writer could commit it"}
    for path, why in guarded.items():
        with pytest.raises(Violation, match=why):
            table.ledger.copy(lambda: table.now).watch(path, None)
    table.now += 2 * _HOUR
    for path in guarded:
        table.ledger.watch(path, None)


def test_the_ledger_compares_answers_with_commits() -> None:
    table = _Table()
    table.commit(0, -1, _append(x=[0, 0]), table.file("a", x=[0, 0]))
    with pytest.raises(Violation, match="got a conflict"):
        table.ledger.refused("0")
    with pytest.raises(Violation, match="got version 1"):
        table.ledger.acknowledged("0", 1)
    table.ledger.refused("1")
    with pytest.raises(Violation, match="becomes version 1"):
        table.commit(1, 0, {"kind": "nothing"})
