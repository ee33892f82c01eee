"""A delete with a label: neither the log nor an error contains the values of its predicate."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as Peer
from deltalake import write_deltalake

from lakehouse_lib import DeltaTable
from lakehouse_lib.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    DeltaError,
    InvalidArgumentError,
    InvalidPredicateError,
)
from lakehouse_lib.expressions import parse
from lakehouse_lib.transaction import OptimisticTransaction
from tests.peers import read_delta_rs
from tests.table_builder import create, files

KEY = "C-90218-ZYXWVUT-4711"
LABEL = "erasure 7f3a"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Customers A, KEY and Z in one file, whose statistics in the log do not contain KEY."""
    write_deltalake(tmp_path / "t", pa.table({"c": ["A", KEY, "Z"], "n": pa.array([1, 2, 3], pa.int64())}))
    return tmp_path / "t"


def test_the_log_has_the_label_in_place_of_the_predicate(table: Path) -> None:
    DeltaTable(table).delete(f"c = '{KEY}'", label=LABEL)
    commit = (table / "_delta_log" / f"{1:020}.json").read_text()
    assert KEY not in commit
    # Spark writes a JSON array as text.
    for history in (Peer(str(table)).history(1), DeltaTable(table).history(1)):
        assert json.loads(history[0]["operationParameters"]["predicate"]) == [LABEL]
    assert read_delta_rs(table)["c"].to_pylist() == ["A", "Z"]


def test_without_a_label_the_log_has_the_predicate(table: Path) -> None:
    DeltaTable(table).delete("n = 2")
    assert json.loads(Peer(str(table)).history(1)[0]["operationParameters"]["predicate"]) == ["n = 2"]


@pytest.mark.parametrize(("predicate", "label"), [(None, LABEL), ("n = 2", ""), ("n = 2", "x" * 201), ("n = 2", 7)])
def test_a_label_is_a_text_of_a_few_words_for_a_predicate(table: Path, predicate: str | None, label: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"label is .*expected text of 1 to 200 characters"):
        DeltaTable(table).delete(predicate, label=label)  # type: ignore[arg-type]
    assert Peer(str(table)).version() == 0


@pytest.mark.parametrize(
    "predicate",
    [
        f"d = '{KEY}'",  # no such column
        f"n = '{KEY}'",  # of another type
        f"c = '{KEY}",  # torn
        f"`{KEY}` = 1",
        f"max(c) = '{KEY}'",
        f"soundex(c) = '{KEY}'",  # only Spark can evaluate the function
    ],
)
def test_a_predicate_that_does_not_fit_is_refused_by_its_label(table: Path, predicate: str) -> None:
    with pytest.raises(InvalidPredicateError) as refusal:
        DeltaTable(table).delete(predicate, label=LABEL)
    assert LABEL in str(refusal.value)
    assert str(table) in str(refusal.value)
    assert_silent(refusal.value)


def test_a_calculation_that_fails_is_refused_by_its_label(table: Path) -> None:
    with pytest.raises(InvalidPredicateError, match="'erasure 7f3a' cannot be evaluated") as refusal:
        DeltaTable(table).delete(f"n + 9223372036854775807 > 5 OR c = '{KEY}'", label=LABEL)
    assert_silent(refusal.value)


@pytest.mark.parametrize(("winner", "kind"), [("add", ConcurrentAppendError), ("remove", ConcurrentDeleteReadError)])
def test_a_conflict_names_the_label(tmp_path: Path, winner: str, kind: type[DeltaError]) -> None:
    snapshot = create(tmp_path / "t")
    if winner == "remove":
        first = OptimisticTransaction(snapshot, snapshot.store, "WRITE", {})
        first.add(files("a"))
        first.commit()
        snapshot = snapshot.update()
    loser = OptimisticTransaction(snapshot, snapshot.store, "DELETE", {})
    loser.read(parse("id = 471147114711", snapshot.schema, label=LABEL))
    loser.add(files("b"))
    other = OptimisticTransaction(snapshot, snapshot.store, "WRITE", {})
    other.read(None)
    getattr(other, winner)(files("a"))
    other.commit()
    error = loser.commit().error  # type: ignore[union-attr]
    assert isinstance(error, kind)
    assert f"the predicate {LABEL}" in str(error)
    assert "4711" not in str(error)


def test_neither_a_predicate_nor_its_parts_show_their_values(table: Path) -> None:
    snapshot = DeltaTable(table)._snapshot
    predicate = parse(f"c = '{KEY}' AND n = 2", snapshot.schema, label=LABEL)
    for part in (predicate, *predicate.split(["c"])):
        assert part is not None
        assert (repr(part), part.text) == (f"Predicate('{LABEL}')", LABEL)


def assert_silent(error: BaseException) -> None:
    """Check that neither the error nor its traceback contains the key."""
    texts = []
    shown: BaseException | None = error
    while shown is not None:
        texts += [str(shown), repr(shown)]
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    assert not [text for text in texts if KEY in text]
