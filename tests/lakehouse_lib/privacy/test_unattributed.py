"""Quarantined records without a key: counted, listed if they contain a key, and never matches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.privacy import unattributed
from lakehouse_lib.privacy.erasure import LocatedRows, locate
from lakehouse_lib.privacy.purge import prove
from lakehouse_lib.privacy.subject import subject_from_config

ROWS: list[dict[str, object]] = [
    {"key": "17", "_file": "a.csv"},
    {"key": None, "_raw": "17,x"},
    {"key": None, "_raw": "x|'17'|y"},
    {"key": None, "_raw": '{"key": 17'},
    {"key": None, "_raw": "1996-03-17,117,17.50,x17,17x"},
    {"key": None, "_raw": ""},
    {"key": None},
    {"key": "17 or 18", "_column": "key"},
    {"key": "18", "_column": "key", "_rule": "known_key"},
    {"key": "18", "_column": "other"},
]


def quarantine(root: Path, rows: list[dict[str, object]]) -> str:
    names = ("key", "_source", "_file", "_column", "_rule", "_raw")
    defaults = {"_source": "shop", "_file": "b.csv"}
    texts = {name: pa.array([row.get(name, defaults.get(name)) for row in rows], pa.string()) for name in names}
    write_deltalake(root, pa.table({**texts, "_line": pa.array(range(1, len(rows) + 1), pa.int64())}))
    return str(root)


def located(uri: str, subject_id: object = 17, id_type: str = "long") -> LocatedRows:
    rows = [{"table": "q", "key": "key", "quarantine": True}]
    (location,) = locate(subject_from_config({"id_type": id_type, "rows": rows}), subject_id, {"q": uri})
    return location


def test_records_are_counted_and_those_with_the_key_as_a_whole_field_named(tmp_path: Path) -> None:
    location = located(quarantine(tmp_path / "q", ROWS))
    assert location.rows == 1
    assert location.unattributed is not None
    assert location.unattributed.records == 7
    assert location.unattributed.mentions == 4
    assert location.unattributed.places == ("b.csv line 2", "b.csv line 3", "b.csv line 4", "b.csv line 8")


def test_the_predicates_select_the_same_records_in_other_engines(tmp_path: Path) -> None:
    uri = quarantine(tmp_path / "q", ROWS)
    unknown = located(uri).unattributed
    assert unknown is not None
    assert DeltaTable(uri).delete(unknown.mentions_predicate.replace("`", '"'))["num_deleted_rows"] == 4
    assert DeltaTable(uri).delete(unknown.predicate.replace("`", '"'))["num_deleted_rows"] == 3
    left = located(uri)
    assert left.rows == 1
    assert left.unattributed is not None
    assert (left.unattributed.records, left.unattributed.mentions_predicate) == (0, "FALSE")


def test_an_id_of_several_words_is_looked_for_anywhere(tmp_path: Path) -> None:
    uri = quarantine(tmp_path / "q", [{"_raw": "x;o'hara, ann;y"}, {"_raw": "o'hara"}, {"_raw": "ann"}])
    unknown = located(uri, "o'hara, ann", "string").unattributed
    assert unknown is not None
    assert unknown.places == ("b.csv line 1",)


def test_an_id_that_begins_with_a_plus_is_distinct(tmp_path: Path) -> None:
    uri = quarantine(tmp_path / "q", [{"_raw": "x,+41,y"}, {"_raw": "x,41,y"}])
    for subject_id, place in (("+41", "b.csv line 1"), ("41", "b.csv line 2")):
        unknown = located(uri, subject_id, "string").unattributed
        assert unknown is not None
        assert unknown.places == (place,)


def test_all_spellings_of_an_id_are_found(tmp_path: Path) -> None:
    spelled = ["0017;x", "x,+17", "'++0017'", "of 17.", "17-", '{"k": 17.0}', '{"k":17e0}', '["17.00E+00"]']
    raw = [*spelled, "17.5", "17e1", "-17", "170", "0x17", "00", "17.x", "1.7"]
    unknown = located(quarantine(tmp_path / "q", [{"_raw": text} for text in raw])).unattributed
    assert unknown is not None
    assert unknown.places == tuple(f"b.csv line {number + 1}" for number in range(len(spelled)))


def test_a_negative_id_is_mentioned_with_decimals(tmp_path: Path) -> None:
    raw = ["-17", '{"k": -17.0}', "-17e0", "17", "17.0"]
    unknown = located(quarantine(tmp_path / "q", [{"_raw": text} for text in raw]), "-17").unattributed
    assert unknown is not None
    assert unknown.places == tuple(f"b.csv line {number}" for number in (1, 2, 3))


def test_a_text_is_mentioned_at_the_end_of_a_sentence(tmp_path: Path) -> None:
    uri = quarantine(tmp_path / "q", [{"_raw": text} for text in ("of C-17.", "C-17", "C-17.5", "C-17.0")])
    unknown = located(uri, "C-17", "string").unattributed
    assert unknown is not None
    assert unknown.places == ("b.csv line 1", "b.csv line 2")


@pytest.mark.parametrize("column", ["_source", "_file"])
def test_a_mention_without_an_origin_is_refused(tmp_path: Path, column: str) -> None:
    uri = quarantine(tmp_path / "q", [{"_raw": "17", column: None}, {"_raw": "17"}, {"_raw": "18", column: None}])
    with pytest.raises(InvalidPredicateError, match="that mention one of 1 keys have NULL as _source, _file or _line"):
        located(uri)
    unknown = located(uri, 19).unattributed
    assert unknown is not None
    assert (unknown.records, unknown.mentions) == (3, 0)


def test_another_sources_file_of_the_same_name_is_another_place(tmp_path: Path) -> None:
    uri = quarantine(tmp_path / "q", [{"_raw": "17"}, {"_raw": "17", "_source": "o'ther"}])
    unknown = located(uri).unattributed
    assert unknown is not None
    assert unknown.mentions == 2
    assert "`_source` = 'shop'" in unknown.mentions_predicate
    assert (
        DeltaTable(uri).delete(unknown.mentions_predicate.replace("`", '"').replace("\\'", "''"))["num_deleted_rows"]
        == 2
    )


def test_a_file_with_other_columns_is_named_by_its_lines(tmp_path: Path) -> None:
    """Its keys would make the condition too long."""
    moved: list[dict[str, object]] = [{"key": f"{'x' * 60} {n}", "_column": "other"} for n in range(20_000)]
    moved[5]["key"] = "18"
    uri = quarantine(tmp_path / "q", [*ROWS, *moved, {"key": "x", "_column": "other", "_source": "o'ther"}])
    location = located(uri)
    assert location.unattributed is not None
    assert (location.rows, location.unattributed.records, location.unattributed.mentions) == (1, 7 + 20_000, 5)
    assert len(location.unattributed.predicate) < 1000
    assert prove(uri, location.unattributed.predicate).rows == 7 + 20_000
    assert DeltaTable(uri).delete(location.unattributed.predicate.replace("`", '"').replace("\\'", "''"))[
        "num_deleted_rows"
    ] == (7 + 20_000)


def test_lines_in_a_row_are_named_by_their_ends(tmp_path: Path) -> None:
    uri = quarantine(tmp_path / "q", [{"_raw": "17" if n % 50 else "x"} for n in range(2000)])
    unknown = located(uri).unattributed
    assert unknown is not None
    assert (unknown.mentions, len(unknown.places)) == (1960, 1960)
    assert "`_line` BETWEEN 2 AND 50" in unknown.mentions_predicate
    assert prove(uri, unknown.mentions_predicate).rows == 1960


def test_too_many_places_for_a_condition_are_refused_before_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unattributed, "_MOST_CHARACTERS", 2000)
    uri = quarantine(tmp_path / "q", [{"_raw": "17" if n % 2 else "x"} for n in range(2000)])
    with pytest.raises(InvalidPredicateError) as refused:
        located(uri)
    assert refused.value.code == "DELTA_INVALID_PREDICATE"
    assert refused.value.table == uri


@pytest.mark.parametrize("rows", [[], ROWS[:1]])
def test_a_quarantine_without_such_records(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    unknown = located(quarantine(tmp_path / "q", rows)).unattributed
    assert unknown is not None
    assert (unknown.records, unknown.mentions, unknown.places) == (0, 0, ())
