from __future__ import annotations

import pytest

from lakehouse_lib.errors import IngestError
from lakehouse_lib.ingestion.batch_planning import History, cut, history, sort_files
from lakehouse_lib.ingestion.intent_log import Intent, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint, SourceFile


def intent(number: int, *names: str) -> Intent:
    return Intent(number, tuple(Fingerprint(name, 10, 1000, f"digest of {name}") for name in names), {})


def past(intents: list[Intent], outcomes: list[Outcome], committed: int | None) -> History:
    return history(
        {each.number: each for each in intents},
        {each.number: each for each in outcomes},
        committed,
        table="t",
        source="erp",
    )


def no_digest(file: SourceFile) -> Fingerprint | None:
    raise AssertionError(f"{file.name} need not be read")


def test_first_run() -> None:
    empty = past([], [], None)
    assert (empty.next_number, empty.unsettled, empty.loaded) == (0, None, {})


def test_batch_with_an_intent_and_no_transaction_is_redone() -> None:
    half = past([intent(0, "a"), intent(1, "b")], [], 0)
    assert half.unsettled == intent(1, "b")
    assert list(half.loaded) == ["a"]


def test_batch_with_its_transaction_is_done() -> None:
    done = past([intent(0, "a"), intent(1, "b")], [], 1)
    assert done.unsettled is None
    assert done.next_number == 2
    assert {name: batch for name, (_, batch) in done.loaded.items()} == {"a": 0, "b": 1}


def test_batch_of_refused_files_is_settled_without_a_transaction() -> None:
    refused = past([intent(0, "a")], [Outcome(0, {"a": "bad"}, "every file was refused")], None)
    assert refused.unsettled is None
    assert refused.refused["a"][1] == "bad"


def test_files_of_a_batch_that_was_given_up_are_new() -> None:
    given_up = past([intent(0, "a")], [Outcome(0, {}, "the suite failed")], None)
    files = sort_files({"a": SourceFile("a", 10, 1000)}, set(), given_up, no_digest)
    assert [file.name for file in files.new] == ["a"]


def test_refused_file_that_was_corrected_and_loaded_is_loaded() -> None:
    mended = past([intent(0, "a"), intent(1, "a")], [Outcome(0, {"a": "bad"}, "every file was refused")], 1)
    assert not mended.refused
    assert mended.loaded["a"][1] == 1


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


def test_loaded_file_as_it_was_is_not_read_again() -> None:
    files = sort_files({"a": SourceFile("a", 10, 1000)}, set(), past([intent(0, "a")], [], 0), no_digest)
    assert not files.new
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
    read = (
        no_digest if digest is None else lambda source: Fingerprint(source.name, source.size, source.modified, digest)
    )
    files = sort_files({"a": file}, set(), past([intent(0, "a")], [], 0), read)
    assert files.changed == ({"a": 0} if changed else {})
    assert not files.new


def test_refused_file_is_new_once_it_is_corrected() -> None:
    before = past([intent(0, "a")], [Outcome(0, {"a": "bad"}, "every file was refused")], None)
    assert sort_files({"a": SourceFile("a", 10, 1000)}, set(), before, no_digest).refused == {"a": "bad"}
    corrected = sort_files({"a": SourceFile("a", 12, 2000)}, set(), before, no_digest)
    assert [file.name for file in corrected.new] == ["a"]


def test_growing_file_waits_whatever_it_was() -> None:
    files = sort_files({"a": SourceFile("a", 11, 1)}, {"a"}, past([intent(0, "a")], [], 0), no_digest)
    assert files.waiting == ("a",)
    assert not files.changed


def test_cut_keeps_the_order() -> None:
    files = [SourceFile(name, 1, 1) for name in "abcde"]
    assert ["".join(file.name for file in batch) for batch in cut(files, 2)] == ["ab", "cd", "e"]
