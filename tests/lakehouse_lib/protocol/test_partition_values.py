"""Partition values: round trips, folder names, and delta-rs as writer and reader."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import deltalake
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from lakehouse_lib.errors import InvalidArgumentError, LogCorruptedError
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.protocol.partition_values import (
    HIVE_NULL,
    hive_path,
    parse_hive_path,
    partition_column,
    to_strings,
    to_typed,
)
from lakehouse_lib.schema import ArrayType, PrimitiveType
from tests.lakehouse_lib.expressions.predicate_cases import VALUES, array

TEXT = st.text(st.characters(codec="utf-8"), min_size=1)


def files_of(values: list[list[tuple[str, str | None]] | None]) -> pa.Table:
    columns = {field.name: pa.nulls(len(values), field.type) for field in FILE_SCHEMA}
    columns["path"] = pa.array([str(i) for i in range(len(values))])
    columns["partitionValues"] = pa.array(values, FILE_SCHEMA.field("partitionValues").type)
    return pa.Table.from_pydict(columns, schema=FILE_SCHEMA)


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind not in ("string", "binary")])
def test_round_trip(kind):
    column = array([*VALUES[kind], None], kind)
    written = to_strings(column, PrimitiveType(kind))
    assert written.type == pa.string()
    assert written.null_count == 1
    assert repr(to_typed(written, PrimitiveType(kind)).to_pylist()) == repr(column.to_pylist())


@given(st.lists(st.none() | TEXT))
def test_text_round_trip_and_empty_is_null(values):
    kind = PrimitiveType("string")
    written = to_strings(pa.array([*values, ""], pa.string()), kind)
    assert to_typed(written, kind).to_pylist() == [*values, None]


def test_spellings_of_the_log():
    def read(kind, *texts):
        return to_typed(pa.array(texts, pa.string()), PrimitiveType(kind)).to_pylist()

    noon = dt.datetime(2020, 1, 31, 12, tzinfo=dt.UTC)
    forms = ["2020-01-31 12:00:00", "2020-01-31 12:00:00.000000", "2020-01-31T12:00:00.000000Z"]
    assert read("timestamp", *forms, "2020-01-31T13:00:00+01:00") == [noon] * 4
    assert read("timestamp_ntz", *forms) == [noon.replace(tzinfo=None)] * 3
    assert read("long", "", None, "5") == [None, None, 5]
    assert read("double", "1.0E10", "-Infinity") == [1e10, float("-inf")]
    assert read("decimal(5,2)", "1.5") == [Decimal("1.50")]
    assert read("binary", "ab", "\\u0061\\u00ff", "\\u0061\n") == [b"ab", b"a\xff", b"\\u0061\n"]
    written = to_strings(array([1_577_836_801_123_456], "timestamp"), PrimitiveType("timestamp"))
    assert written.to_pylist() == ["2020-01-01T00:00:01.123456Z"]
    assert to_strings(pa.array([float("inf"), float("nan")]), PrimitiveType("double")).to_pylist() == [
        "Infinity",
        "NaN",
    ]


@pytest.mark.parametrize(
    ("kind", "text"), [("long", "x"), ("byte", "300"), ("date", "2020-02-30"), ("timestamp", "noon")]
)
def test_an_invalid_partition_value_is_refused(kind, text):
    with pytest.raises(LogCorruptedError, match=f"not a valid {kind}: .*{text}"):
        to_typed(pa.array([text]), PrimitiveType(kind))


def test_partition_values_that_cannot_be_written():
    with pytest.raises(InvalidArgumentError, match="not UTF-8"):
        to_strings(pa.array([b"\xff"]), PrimitiveType("binary"))
    with pytest.raises(InvalidArgumentError, match="looks like escapes of other bytes"):
        to_strings(pa.array([b"\\u0041"]), PrimitiveType("binary"))
    with pytest.raises(InvalidArgumentError, match="array<long>"):
        to_strings(pa.array([[1]]), ArrayType("long"))


FIRST_DAY, LAST_DAY, FARTHEST = -719_528, 2_932_896, 2**31 - 1  # of year 0, of year 9999, of all
DAY = 86_400_000_000


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_years_that_readers_refuse_are_not_written(kind):
    unit, last = (1, LAST_DAY) if kind == "date" else (DAY, (LAST_DAY + 1) * DAY - 1)
    farthest = FARTHEST if kind == "date" else 2**63 - 1
    integers, arrow = pa.int32() if kind == "date" else pa.int64(), PrimitiveType(kind).to_arrow()
    fine = pa.array([FIRST_DAY * unit, None, last], integers).cast(arrow)
    assert to_typed(to_strings(fine, PrimitiveType(kind)), PrimitiveType(kind)).equals(fine)
    for far in (FIRST_DAY * unit - 1, last + 1, farthest, -farthest):
        with pytest.raises(InvalidArgumentError, match=r"partition value .* has a year") as refused:
            to_strings(pa.array([0, far], integers).cast(arrow), PrimitiveType(kind))
        assert "0 to 9999" in str(refused.value)


@given(st.dictionaries(TEXT, st.none() | TEXT | st.just(HIVE_NULL), min_size=1, max_size=4))
def test_folder_names_are_restored(values):
    order = list(values)
    path = hive_path(values, order)
    assert path.count("/") == len(values) - 1
    assert ".." not in path.split("/")
    assert parse_hive_path(f"{path}/part-0.parquet", order) == values


def test_folders_are_escaped_as_hive_does():
    values = {"k": "a b/é:\x01%=#[]{}^'\"*?\\\x7f-_.,;~", "z": None, "e": ""}
    escaped = "a b%2Fé%3A%01%25%3D%23%5B%5D%7B}%5E%27%22%2A%3F%5C%7F-_.,;~"
    assert hive_path(values, ["z", "k", "e"]) == f"z={HIVE_NULL}/k={escaped}/e={HIVE_NULL}"
    assert hive_path({}, []) == ""
    with pytest.raises(InvalidArgumentError, match=r"the path 'a=1/f' has no folder b=\.\.\."):
        parse_hive_path("a=1/f", ["a", "b"])


def test_column_of_a_files_table():
    files = files_of([[("p", "1"), ("q", "x")], [("q", "y")], [("p", None)], None, [("P", "3"), ("p", "2")]])
    assert partition_column(files, "p", PrimitiveType("long")).to_pylist() == [1, None, None, None, 2]
    both = pa.concat_tables([files, files]).slice(1, 6)
    assert partition_column(both, "p", PrimitiveType("long")).to_pylist() == [None, None, None, 2, 1, None]
    assert partition_column(files.slice(0, 0), "p", PrimitiveType("date")).type == pa.date32()


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind not in ("float", "double", "binary", "byte")])
def test_agrees_with_delta_rs(kind, tmp_path):
    """delta-rs' texts have the same values in this library, and the other way round."""
    # delta-rs 1.6.6 writes a negative decimal as -999.-99 and cannot read it; a folder's name has at most 255 bytes.
    values = [value for value in VALUES[kind] if not (isinstance(value, Decimal) and value < 0)]
    values = [value for value in values if kind != "string" or 0 < len(value.encode()) <= 60]
    column = array(values, kind)
    table = pa.table({"p": column, "row": pa.array(range(len(values)))})
    deltalake.write_deltalake(str(tmp_path / "theirs"), table, partition_by=["p"])
    actions = pa.table(deltalake.DeltaTable(str(tmp_path / "theirs")).get_add_actions())
    # The texts are read from the log itself, not by delta-rs.
    log = (tmp_path / "theirs" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    adds = [json.loads(line)["add"] for line in log if '"add"' in line]
    assert len(adds) == actions.num_rows
    spellings = pa.array([add["partitionValues"]["p"] for add in adds], pa.string())
    read = to_typed(spellings, PrimitiveType(kind))
    assert sorted(map(repr, read.to_pylist())) == sorted({repr(value) for value in column.to_pylist()})

    our_texts = to_strings(read, PrimitiveType(kind)).to_pylist()
    for add, text in zip(adds, our_texts, strict=True):
        add["partitionValues"]["p"] = text
    lines = [line for line in log if '"add"' not in line] + [json.dumps({"add": add}) for add in adds]
    (tmp_path / "theirs" / "_delta_log" / f"{0:020}.json").write_text("\n".join(lines))
    back = pa.table(deltalake.DeltaTable(str(tmp_path / "theirs")).to_pyarrow_table())
    assert pc.is_in(back.column("p").cast(column.type), value_set=column).to_pylist() == [True] * len(values)


@pytest.mark.parametrize("text", [HIVE_NULL, f"/{HIVE_NULL}", f"//{HIVE_NULL}", f"a/{HIVE_NULL}", f"{HIVE_NULL}/", "/"])
def test_a_text_that_reads_like_a_null_has_a_folder_of_its_own(text: str) -> None:
    folder = hive_path({"p": text}, ["p"])
    assert folder != hive_path({"p": None}, ["p"])
    assert parse_hive_path(folder, ["p"]) == {"p": text}
