from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib.errors import IngestError
from lakehouse_lib.ingestion.batches.planning import (
    MOST_FILES,
    FileStates,
    History,
    cut_batches,
    history,
    settled_states,
    sort_files,
)
from lakehouse_lib.ingestion.intent_log import Intent, Outcome
from lakehouse_lib.ingestion.landing import LISTING, Fingerprint, SourceFile
from lakehouse_lib.ingestion.state.folds import Fold
from lakehouse_lib.ingestion.state.settled_files import SettledFiles
from lakehouse_lib.store import open_store


def intent(number: int, *names: str) -> Intent:
    return Intent(number, tuple(Fingerprint(name, 10, 1000, f"digest of {name}") for name in names), {})


def past(intents: list[Intent], outcomes: list[Outcome], committed: int | None, fold: Fold | None = None) -> History:
    return history(
        fold or Fold(),
        {each.number: each for each in intents},
        {each.number: each for each in outcomes},
        committed,
        table="t",
        source="erp",
    )


def loaded(state: History) -> dict[str, int]:
    rows = state.recent.to_pylist()
    return {row["name"]: row["batch"] for row in rows if row["refused"] is None}


def listing(*files: SourceFile) -> pa.Table:
    return pa.Table.from_pylist([vars(file) for file in files], schema=LISTING)


def states(
    state: History, *files: SourceFile, now: int = 10**12, settle: int = 0, digest: str | None = None
) -> FileStates:
    """The states of files whose content has a digest; None: no file needs to be read."""

    def fingerprint(file: SourceFile) -> Fingerprint | None:
        assert digest is not None, f"{file.name} need not be read"
        return Fingerprint(file.name, file.size, file.modified, digest)

    table = listing(*files)
    settled = SettledFiles(open_store(Path("/nowhere")), (), state.recent).lookup(table["name"].combine_chunks())
    return sort_files(table, settled, now=now, settle=settle, digest=fingerprint, definition="")


def names(table: pa.Table) -> list[str]:
    return table["name"].to_pylist()


def test_first_run() -> None:
    empty = past([], [], None)
    assert (empty.next_number, empty.unsettled, loaded(empty)) == (0, None, {})


def test_batch_with_an_intent_and_no_transaction_is_redone() -> None:
    half = past([intent(0, "a"), intent(1, "b")], [], 0)
    assert half.unsettled == intent(1, "b")
    assert loaded(half) == {"a": 0}
    assert list(half.settled) == [0]


def test_batch_with_its_transaction_is_done() -> None:
    done = past([intent(0, "a"), intent(1, "b")], [], 1)
    assert done.unsettled is None
    assert done.next_number == 2
    assert loaded(done) == {"a": 0, "b": 1}
    assert list(done.settled) == [0, 1]


def test_batch_of_refused_files_is_settled_without_a_transaction() -> None:
    refused = past([intent(0, "a")], [Outcome(0, {"a": "bad"}, "every file was refused")], None)
    assert refused.unsettled is None
    assert refused.recent.select(["name", "refused"]).to_pylist() == [{"name": "a", "refused": "bad"}]


def test_files_of_a_batch_that_was_given_up_are_new() -> None:
    given_up = past([intent(0, "a")], [Outcome(0, {}, "the suite failed")], None)
    assert names(states(given_up, SourceFile("a", 10, 1000)).new) == ["a"]


def test_refused_file_that_was_corrected_and_loaded_is_loaded() -> None:
    corrected = past([intent(0, "a"), intent(1, "a")], [Outcome(0, {"a": "bad"}, "every file was refused")], 1)
    assert loaded(corrected) == {"a": 1}
    assert corrected.recent.num_rows == 1


@pytest.mark.parametrize(
    ("intents", "committed", "said"),
    [
        ([], 0, "has no batch 0"),
        ([intent(1, "b")], 1, "has no batch 0"),
        ([intent(0, "a")], 3, "has no batch 3"),
        ([intent(0, "a"), intent(1, "b")], None, "batch 0 of source 'erp' was loaded"),
    ],
    ids=["log deleted", "gap", "log of another time", "table made anew"],
)
def test_log_and_table_that_contradict_each_other(intents: list[Intent], committed: int | None, said: str) -> None:
    with pytest.raises(IngestError, match=said):
        past(intents, [], committed)


def test_an_unchanged_loaded_file_is_not_read_again() -> None:
    files = states(past([intent(0, "a")], [], 0), SourceFile("a", 10, 1000))
    assert not files.new.num_rows
    assert not files.changed


@pytest.mark.parametrize(
    ("file", "digest", "changed"),
    [
        (SourceFile("a", 11, 1000), None, True),
        (SourceFile("a", 10, 2000), "other", True),
        (SourceFile("a", 10, 2000), "digest of a", False),
    ],
    ids=["other size", "same size, other content", "only touched"],
)
def test_loaded_name_with_other_content_is_reported(file: SourceFile, digest: str | None, changed: bool) -> None:
    files = states(past([intent(0, "a")], [], 0), file, digest=digest)
    assert files.changed == ({"a": 0} if changed else {})
    assert not files.new.num_rows


def test_refused_file_is_new_once_it_is_corrected() -> None:
    before = past([intent(0, "a")], [Outcome(0, {"a": "bad"}, "every file was refused")], None)
    assert states(before, SourceFile("a", 10, 1000)).refused == {"a": "bad"}
    assert names(states(before, SourceFile("a", 12, 2000)).new) == ["a"]


@pytest.mark.parametrize(("modified", "waits"), [(95_000, True), (105_000, True), (90_000, False)])
def test_a_young_file_waits(modified: int, waits: bool) -> None:
    files = states(past([intent(0, "a")], [], 0), SourceFile("a", 11, modified), now=100_000, settle=10_000)
    assert files.waiting == (("a",) if waits else ())
    assert files.changed == ({} if waits else {"a": 0})


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        (SourceFile("a", 5, 0), SourceFile("a", 5, 0), False),
        (SourceFile("a", 5, 0), SourceFile("a", 6, 0), True),
        (None, SourceFile("a", 5, 0), True),
    ],
    ids=["unchanged", "grown", "new at the second look"],
)
def test_a_file_that_grows_between_two_listings_waits(
    first: SourceFile | None, second: SourceFile, waits: bool
) -> None:
    before = FileStates(listing(SourceFile("0", 5, 0), *([first] if first else [])))
    files = settled_states(before, FileStates(listing(second), waiting=("b",)))
    assert (names(files.new), files.waiting) == (([], ("b", "a")) if waits else (["a"], ("b",)))


def test_objects_are_compared_by_their_etags() -> None:
    fingerprint = Fingerprint("a", 10, 1000, 'etag:"x"')
    state = past([Intent(0, (fingerprint,), {})], [], 0)
    assert states(state, SourceFile("a", 10, 2000, '"x"')).changed == {}
    assert states(state, SourceFile("a", 10, 1000, '"y"')).changed == {"a": 0}


@pytest.mark.parametrize(("size", "changed"), [(10, {}), (11, {"a": 0})])
@pytest.mark.parametrize(("digest", "tag"), [("00ff", '"x"'), ('etag:"x"', "")])
def test_files_that_moved_to_another_kind_of_folder_are_compared_by_size(
    size: int, changed: dict[str, int], digest: str, tag: str
) -> None:
    state = past([Intent(0, (Fingerprint("a", 10, 1000, digest),), {})], [], 0)
    files = states(state, SourceFile("a", size, 3000, tag))
    assert (files.changed, names(files.new)) == (changed, [])


def test_batches_after_a_fold() -> None:
    fold = Fold(3, through=4, loaded=3)
    assert past([], [], 3, fold).next_number == 5
    state = past([intent(5, "a"), intent(6, "b")], [], 5, fold)
    assert (list(state.settled), state.next_number, state.unsettled) == ([0, 1, 2, 3, 4, 5], 7, intent(6, "b"))
    assert loaded(state) == {"a": 5}
    for intents, committed, message in (
        ([intent(6, "b")], 3, "has no batch 5"),
        ([], 5, "has no batch 5"),
        ([], 2, "batch 3 of source 'erp' was loaded"),
        ([], None, "batch 3 of source 'erp' was loaded"),
    ):
        with pytest.raises(IngestError, match=message):
            past(intents, [], committed, fold)


def test_cut_keeps_the_order_and_the_limits() -> None:
    files = listing(*(SourceFile(name, size, 1) for name, size in zip("abcdefg", (1, 2, 3, 9, 1, 1, 4), strict=True)))

    def batches(files_per_batch: int, bytes_per_batch: int | None = None) -> list[str]:
        return ["".join(file.name for file in batch) for batch in cut_batches(files, files_per_batch, bytes_per_batch)]

    assert batches(2) == ["ab", "cd", "ef", "g"]
    assert batches(100) == ["abcdefg"]
    assert batches(100, 3) == ["ab", "c", "d", "ef", "g"]
    assert batches(100, 6) == ["abc", "d", "efg"]
    assert batches(2, 6) == ["ab", "c", "d", "ef", "g"]
    many = listing(*(SourceFile(f"{number}", 1, 1) for number in range(MOST_FILES + 1)))
    assert [len(batch) for batch in cut_batches(many, 10**9)] == [MOST_FILES, 1]
    assert list(cut_batches(listing(), 5)) == []
