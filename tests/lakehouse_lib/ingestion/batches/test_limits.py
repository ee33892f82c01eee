"""A row that the table or its partition cannot store goes to quarantine with its reason; the other rows are loaded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import write_deltalake
from lakehouse_lib.ingestion.limits import beyond_years, partition_faults
from lakehouse_lib.ingestion.quarantine import Origin
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.parse import Parser
from lakehouse_lib.protocol import partition_values
from lakehouse_lib.store import LocalStore, open_store
from tests.landed_files import landed

LONG_NAME = "makes a folder name of more than 255 bytes"
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("s", pa.string()), pa.field("at", pa.timestamp("us", "UTC"))])


def parsed(
    folder: Path, name: str, schema: pa.Schema, partition_columns: tuple[str, ...] = ()
) -> tuple[list[int], dict[str, list[tuple[str, str]]]]:
    """The ids of loaded rows, and the problems of the other rows by id."""
    source_format = SourceFormat("parquet" if name.endswith(".parquet") else "csv")
    parser = Parser(source_format, schema, partition_columns, open_store(folder / "table").limits)
    blocks = list(parser.read(landed(folder / "landing" / name), Origin("erp", 0, name), 0))
    rejected = [row for block in blocks for row in block.rejected.to_pylist()]
    return [number for block in blocks for number in block.rows.column("id").to_pylist()], {
        row["id"]: [(violation["column"], violation["reason"]) for violation in row["_violations"]] for row in rejected
    }


def land(folder: Path, *rows: str) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "landing" / "a.csv").write_text("\n".join(["id,s,at", *rows]) + "\n")


def test_a_row_with_a_partition_value_too_long_for_a_folder_is_rejected(tmp_path: Path) -> None:
    room = 255 - len("s=")
    land(
        tmp_path,
        f"1,{'x' * 300},",
        f"2,{'x' * room},",
        f"3,{'x' * (room + 1)},",
        f"4,{'é' * (room // 2 + 1)},",
        f"5,{'%' * (room // 3 + 1)},",
        f"6,{'%' * (room // 3)},",
        "7,,",
        f"8,{'x' * 300},never",
    )
    rows, rejected = parsed(tmp_path, "a.csv", SCHEMA, ("s",))
    assert rows == [2, 6, 7]
    wrong = [("s", LONG_NAME)]
    assert rejected == {**dict.fromkeys("1345", wrong), "8": [*wrong, ("at", "not a valid timestamp")]}
    assert parsed(tmp_path, "a.csv", SCHEMA)[0] == [1, 2, 3, 4, 5, 6, 7]


def test_rows_with_years_beyond_the_range_are_rejected(tmp_path: Path) -> None:
    land(
        tmp_path,
        "1,,9999-12-31T23:59:59-12:00",
        "2,,9999-12-31T23:59:59.999999Z",
        "3,,0001-01-01T00:00:00Z",
        "4,,0001-01-01T00:00:00+01:00",
        "5,,0000-06-01T00:00:00Z",
        "6,,nonsense",
    )
    for partition_columns in ((), ("at",)):
        rows, rejected = parsed(tmp_path, "a.csv", SCHEMA, partition_columns)
        assert rows == [2, 3]
        assert rejected == {
            **{key: [("at", "a year outside 1 to 9999")] for key in "145"},
            "6": [("at", "not a valid timestamp")],
        }


@pytest.mark.parametrize("unit", ["us", "ms", "s"])
def test_rows_of_parquet_with_years_beyond_the_range_are_rejected(tmp_path: Path, unit: str) -> None:
    ends = pa.array([253402300800, 253402300799, -62135596800, -62135596801, None]).cast(pa.timestamp("s", "UTC"))
    days = pa.array([2_932_897, 2_932_896, -719_162, -719_163, None], pa.int32()).cast(pa.date32())
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("d", pa.date32())])
    (tmp_path / "landing").mkdir()
    rows = pa.table({"id": [1, 2, 3, 4, 5], "at": ends.cast(pa.timestamp(unit, "UTC")), "d": days})
    pq.write_table(rows, tmp_path / "landing" / "a.parquet")
    wrong = [(name, "a year outside 1 to 9999") for name in ("at", "d")]
    assert parsed(tmp_path, "a.parquet", schema, ("at", "d")) == ([2, 3, 5], {"1": wrong, "4": wrong})


def test_years_agree_with_arrow() -> None:
    days = pa.array(range(-719_162 - 800, -719_162 + 800), pa.int32()).cast(pa.date32())
    assert beyond_years(days).tolist() == [year < 1 for year in pc.year(days).to_pylist()]


def test_other_values_that_cannot_name_a_folder(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("b", pa.binary()), pa.field("s", pa.string(), nullable=False)])
    columns = [pa.array([b"\xff", b"x", b"x", b"\\u0041"]), pa.array(["x", "a\0b", "", "x"])]
    faults = partition_faults(columns, schema, ("b", "s"), LocalStore("/t").limits)
    assert [(name, reason, wrong.tolist().index(True)) for name, reason, wrong in faults if wrong.any()] == [
        ("b", "not valid utf-8 text, and a partition value", 0),
        ("b", "text that readers take for escapes of other bytes, and a partition value", 3),
        ("s", "holds NUL, and is a partition value", 1),
        ("s", "empty, which a partition column stores as null, and must not be null", 2),
    ]


def test_s3_limits_the_key_and_not_its_folders() -> None:
    values = {name: pa.array(["x" * 300, "x" * 450, None]) for name in ("a", "b")}
    problems = list(partition_values.overlong_folders(values, open_store("s3://bucket/lake/t").limits))
    assert [(name, what, wrong.to_pylist()) for name, what, wrong in problems] == [
        ("b", "makes a key of more than 1024 bytes", [False, True, False])
    ]
    deep = {f"c{number}": pa.array(["x" * 250]) for number in range(20)}
    problems = list(partition_values.overlong_folders(deep, LocalStore("/t").limits))
    assert [(name, what) for name, what, _ in problems] == [("c15", "makes a path of more than 4096 bytes")]


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=400))
def test_accepted_values_are_folders_that_can_be_created(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    root = tmp_path_factory.getbasetemp()
    problems = list(partition_values.overlong_folders({"é": pa.array([text])}, LocalStore(str(root)).limits))
    folder = root / partition_values.hive_path({"é": text}, ["é"])
    if problems:
        with pytest.raises(OSError, match="too long"):
            folder.mkdir()
    else:
        folder.mkdir()
        folder.rmdir()


def test_a_write_refuses_a_long_partition_value_before_it_writes_files(tmp_path: Path) -> None:
    rows = pa.table({"s": ["a", "y" * 300], "id": [1, 2]})
    with pytest.raises(ValueError, match=rf"column s: the partition value 'y{{40}}\.\.\.' of 300 bytes {LONG_NAME}"):
        write_deltalake(tmp_path / "t", rows, partition_by=["s"])
    assert not list(tmp_path.rglob("*.parquet"))


def test_only_rows_with_invalid_nested_values_are_rejected(tmp_path: Path) -> None:
    """NULL where the schema does not allow it, and a year beyond 9999; inside of NULL nothing is checked."""
    (tmp_path / "landing").mkdir()
    number, day, far = pa.int32(), pa.date32(), 4_000_000
    structs = pa.array(
        [{"t": {"a": 1}, "d": 1}, {"t": {"a": None}, "d": far}, None, {"t": None, "d": None}],
        pa.struct([("t", pa.struct([("a", number)])), ("d", number)]),
    ).cast(pa.struct([("t", pa.struct([("a", number)])), ("d", day)]))
    lists = pa.array([[1], [1], [1, None], None], pa.list_(number))
    maps = pa.array([[("k", 1)], [], [("k", far), ("n", None)], None], pa.map_(pa.string(), number))
    columns = {"id": pa.array(range(4)), "s": structs, "l": lists, "m": maps.cast(pa.map_(pa.string(), day))}
    pq.write_table(pa.table(columns), tmp_path / "landing" / "a.parquet")
    strict = pa.struct([pa.field("a", number, nullable=False)])
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("s", pa.struct([pa.field("t", strict), ("d", day)])),
            pa.field("l", pa.list_(pa.field("element", number, nullable=False))),
            pa.field("m", pa.map_(pa.string(), pa.field("value", day, nullable=False))),
        ]
    )
    null, year = "null in a column that must not be null", "a year outside 1 to 9999"
    assert parsed(tmp_path, "a.parquet", schema) == (
        [0, 3],
        {"1": [("s.t.a", null), ("s.d", year)], "2": [("l.element", null), ("m.value", null), ("m.value", year)]},
    )
