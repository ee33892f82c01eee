"""A task that parses a landed file: typed rows, rejected rows with their reasons, and files that are refused."""

from __future__ import annotations

import csv
import gzip
import io
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError
from lakehouse_lib.ingestion.sources import csv as csv_source
from lakehouse_lib.ingestion.sources import records
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.file_task import TaskResult
from lakehouse_lib.ingestion.tasks.parse import check_schema
from lakehouse_lib.ingestion.tasks.staged_file import StagedFile
from lakehouse_lib.store import open_store
from tests.lakehouse_lib.ingestion.batches.parsed_file import CSV, JSON, PARQUET, Parsed, run


def test_typed_rows_and_where_they_came_from(tmp_path: Path) -> None:
    parsed = Parsed(tmp_path, "a.csv", b'note,id,price\n"say ""hi"", x",1,2.5\n,2,\n"",3,1\n', CSV)
    assert parsed.rows == [
        {"id": 1, "price": Decimal("2.50"), "note": 'say "hi", x', "__file": "a.csv", "__line": 2},
        {"id": 2, "price": None, "note": None, "__file": "a.csv", "__line": 3},
        {"id": 3, "price": Decimal("1.00"), "note": "", "__file": "a.csv", "__line": 4},
    ]
    assert (parsed.result.rows, parsed.result.rejected, parsed.result.refused) == (3, 0, {})


def test_each_fault_has_its_line_column_and_reason(tmp_path: Path) -> None:
    lines = [
        b"id,price,note",
        b"1,free,x",  # 2
        b"",
        b'2,1,"two',  # 4, a valid row on two lines
        b'lines"',
        b"3,1",  # 6
        b'4,1,"a',  # 7, a row on two lines
        b'b",surplus',
        b"x,y,z",  # 9
        b",1,q",  # 10
        b"5,1,\xff",  # 11
        b"6,1,fine",  # 12
    ]
    parsed = Parsed(tmp_path, "a.csv", b"\r\n".join(lines) + b"\r\n\r\n", CSV)
    assert [(row["id"], row["__line"]) for row in parsed.rows] == [(2, 4), (6, 12)]
    by_line = {row["_line"]: row for row in parsed.rejected}
    assert {line: (row["_column"], row["_reason"]) for line, row in by_line.items()} == {
        2: ("price", "not a valid decimal(15,2)"),
        6: (None, "2 fields; expected 3"),
        7: (None, "4 fields; expected 3"),
        9: ("id", "not a valid long"),
        10: ("id", "null in a column that must not be null"),
        11: ("note", "not valid utf-8 text"),
    }
    assert by_line[2] | {"_violations": None} == {
        "id": "1",
        "price": "free",
        "note": "x",
        "_source": "erp",
        "_batch": 4,
        "_file": "a.csv",
        "_line": 2,
        "_column": "price",
        "_reason": "not a valid decimal(15,2)",
        "_rule": None,
        "_raw": None,
        "_violations": None,
    }
    assert [each["column"] for each in by_line[9]["_violations"]] == ["id", "price"]
    assert by_line[6]["_raw"] == "3,1"
    assert by_line[6]["id"] is None


@given(
    rows=st.lists(
        st.tuples(st.text(st.sampled_from('ab",\n é'), min_size=1, max_size=6), st.sampled_from(["1.25", "bad", "9"])),
        max_size=30,
    )
)
def test_lines_agree_with_python_csv_reader_over_many_blocks(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "price", "note"])
    writer.writerows([(index, price, note) for index, (note, price) in enumerate(rows)])
    reader = csv.reader(io.StringIO(text.getvalue(), newline=""))
    expected = {}
    before = 0
    for record in reader:
        expected[before + 1] = record
        before = reader.line_num
    del expected[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BLOCK_SIZE", 256)
        parsed = Parsed(tmp_path_factory.mktemp("csv"), "a.csv", text.getvalue().encode(), CSV)
    got = {row["__line"]: [str(row["id"]), row["note"]] for row in parsed.rows}
    got |= {row["_line"]: [row["id"], row["note"]] for row in parsed.rejected}
    assert got == {line: [record[0], record[2]] for line, record in expected.items()}
    assert {row["_line"] for row in parsed.rejected} == {
        line for line, record in expected.items() if record[1] == "bad"
    }


def test_gzip_of_several_members(tmp_path: Path) -> None:
    content = gzip.compress(b"id,price,note\n1,1,x\n") + gzip.compress(b"2,1,y\n")
    assert [row["id"] for row in Parsed(tmp_path, "a.csv.gz", content, CSV).rows] == [1, 2]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    content = "id,price,note\n1,1,Zürich\n".encode(encoding)
    assert Parsed(tmp_path, "a.csv", content, SourceFormat("csv", encoding=encoding)).rows[0]["note"] == "Zürich"


def test_delimiter_null_text_and_no_header(tmp_path: Path) -> None:
    pipes = SourceFormat("csv", delimiter="|", header=False, null_texts=("\\N",))
    parsed = Parsed(tmp_path, "a.csv", b"1|2|a,b\n2|\\N|\\N\nx|1|c\n", pipes)
    assert [(row["id"], row["note"], row["__line"]) for row in parsed.rows] == [(1, "a,b", 1), (2, None, 2)]
    assert parsed.reasons() == [(3, "id", "not a valid long")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "a.csv",
            b"id,cost,note\n1,1,x\n",
            ["price is missing, expected decimal(15,2)", "cost is not a column of the schema"],
        ),
        ("a.csv", b"id,price,note,note\n1,1,x,y\n", ["note is the name of 2 columns, expected one"]),
        ("a.csv", b"", ["Empty CSV file"]),
        ("a.csv", "id,price,note\n1,1,x\n".encode("utf-16"), ["cannot be read as utf-8 CSV"]),
        ("a.csv", b'id,price,note\n1,1,"open\n2,1,x\n', ["a quoted field is never closed"]),
        ("a.csv.gz", gzip.compress(b"id,price,note\n1,1,x\n" * 50)[:-9], ["cannot be read"]),
        ("a.csv.gz", b"id,price,note\n1,1,x\n", ["cannot be read"]),
    ],
    ids=["renamed", "doubled", "empty", "encoding", "open quote", "torn gzip", "no gzip"],
)
def test_csv_file_that_does_not_fit_is_refused_whole(
    tmp_path: Path, name: str, content: bytes, said: list[str]
) -> None:
    refused = Parsed(tmp_path, name, content, CSV).refused
    assert refused.startswith(name)
    assert all(text in refused for text in said)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pyarrow prints it
def test_a_record_of_the_wrong_width_that_is_not_text_refuses_the_file_and_is_shown(tmp_path: Path) -> None:
    refused = Parsed(tmp_path, "a.csv", b"id,price,note\n1,1,x\n2,1,y,\xff\n", CSV).refused
    assert refused.startswith(
        "a.csv cannot be read as utf-8 CSV: CSV parse error: Row #3: Expected 3 columns, got 4: 2,1,y"
    )


@pytest.mark.parametrize("content", [b"id,price,note", b"id,price,note\n", b"id,price,note\r\n"])
def test_a_header_alone_loads_no_rows(tmp_path: Path, content: bytes) -> None:
    parsed = Parsed(tmp_path, "a.csv", content, CSV)
    assert (parsed.rows, parsed.rejected, parsed.result.refused) == ([], [], {})


def test_bytes_that_the_encoding_does_not_have_refuse_the_file(tmp_path: Path) -> None:
    parsed = Parsed(tmp_path, "a.csv", b"id,price,note\n1,1,\x81\n", SourceFormat("csv", encoding="cp1252"))
    assert "cannot be read as cp1252 CSV" in parsed.refused


def test_json_lines_with_truncated_and_odd_lines(tmp_path: Path) -> None:
    lines = [
        b'{"id": 1, "price": 1.10, "note": "x"}',
        b'{"id": 2, "pri',
        b"",
        b'{"id": "3", "price": "2.5", "note": 7}',
        b"[1]",
        b'{"id": 4, "other": 1}',
        b'{"id": 5, "price": 1.999}',
        b'{"id": 6, "note": {"a": [1, 2.50]}}',
        b'{"id": 7, "note": "\xff"}',
        b'{"price": 1}',
    ]
    parsed = Parsed(tmp_path, "a.json", b"\n".join(lines), JSON)
    assert [(row["id"], row["price"], row["note"], row["__line"]) for row in parsed.rows] == [
        (1, Decimal("1.10"), "x", 1),
        (3, Decimal("2.50"), "7", 4),
    ]
    assert [
        (row["_line"], row["_column"], row["_reason"]) for row in sorted(parsed.rejected, key=lambda r: r["_line"])
    ] == [
        (2, None, "not valid JSON"),
        (5, None, "not a JSON object"),
        (6, "other", "not a column of the schema"),
        (7, "price", "not a valid decimal(15,2)"),
        (8, "note", "not a plain value"),
        (9, None, "not valid utf-8 text"),
        (10, "id", "null in a column that must not be null"),
    ]
    assert {row["_line"]: row["_raw"] for row in parsed.rejected}[2] == '{"id": 2, "pri'


@pytest.mark.parametrize(
    ("line", "source_format"),
    [
        (rb'{"id": 2, "note": "cut \ud83d"}', JSON),
        (rb'{"id": 2, "note": "\uDE00\uD83D"}', JSON),
        (rb'{"id": 2, "note": {"a": [[{"b": "\ud83d"}]]}}', JSON),
        (rb'{"id": 2, "note": {"a": {"\ud83d": 1}}}', JSON),
        (rb'{"\ud83d": 2}', JSON),
        (rb'{"id": 2, "note": "+2D0-"}', SourceFormat("json", encoding="utf-7")),
    ],
    ids=["cut", "the wrong way round", "deep", "key of a member", "key", "of another encoding"],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_row_with_half_a_surrogate_pair_is_rejected(
    tmp_path: Path, line: bytes, source_format: SourceFormat, first: bool
) -> None:
    whole = rb'{"id": 1, "note": "\ud83d\ude00 \\ud83d"}'
    parsed = Parsed(tmp_path, "a.json", b"\n".join([line, whole] if first else [whole, line]), source_format)
    assert [(row["id"], row["note"]) for row in parsed.rows] == [(1, "\U0001f600 \\ud83d")]
    assert parsed.reasons() == [(1 if first else 2, None, "not valid text")]
    if source_format is JSON:
        assert parsed.rejected[0]["_raw"] == line.decode()


def test_json_gzip(tmp_path: Path) -> None:
    assert Parsed(tmp_path, "a.json.gz", gzip.compress(b'{"id": 1}\n'), JSON).result.rows == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", b'{"id": 1, "cost": 2}\n', "cost is not a column of the schema"),
        ("a.json.gz", gzip.compress(b'{"id": 1}\n' * 99)[:-9], "cannot be read as JSON lines"),
    ],
    ids=["unknown key", "torn gzip"],  # the bytes of a gzip file contain the time
)
def test_json_file_that_does_not_fit_is_refused_whole(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    assert said in Parsed(tmp_path, name, content, JSON).refused


def test_a_file_that_changed_is_neither_parsed_nor_refused(tmp_path: Path) -> None:
    task = Parsed(tmp_path, "a.csv", b"id,price,note\n1,1,x\n", CSV).task
    (tmp_path / "landing/a.csv").write_bytes(b"id,cost\n")
    assert run(task) == TaskResult(changed=["a.csv"])


def test_block_size_bounds_the_memory(tmp_path: Path) -> None:
    """A file of forty blocks is never in memory as a whole."""
    content = b"id,price,note\n" + b"".join(
        b"%d,1.25,%s\n" % (n, os.urandom(200).hex().encode()) for n in range(30_000)
    )
    pool = pa.default_memory_pool()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BLOCK_SIZE", len(content) // 40)
        before = pool.bytes_allocated()
        peaks = []
        original = csv_source._text_block

        def watch(*arguments: Any) -> Any:
            peaks.append(pool.bytes_allocated() - before)
            return original(*arguments)

        patch.setattr(csv_source, "_text_block", watch)
        parsed = Parsed(tmp_path, "a.csv", content, CSV)
    assert parsed.result.rows == 30_000
    assert max(peaks) < len(content) / 2


def test_columns_with_names_that_the_load_needs() -> None:
    with pytest.raises(InvalidSchemaError, match="_File"):
        check_schema(pa.schema([("_File", pa.string())]), CSV)


def test_csv_has_no_nested_columns() -> None:
    nested = pa.schema([("tags", pa.list_(pa.string()))])
    check_schema(nested, PARQUET)
    with pytest.raises(InvalidSchemaError, match="tags"):
        check_schema(nested, CSV)


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "xml"},
        {"kind": "csv", "delimiter": "||"},
        {"kind": "csv", "encoding": "klingon"},
        {"kind": "json", "encoding": "utf-16"},
    ],
)
def test_a_format_that_is_not_valid_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError):
        SourceFormat(**options)


def test_null_struct_with_members_that_must_not_be_null_is_staged(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    rows = pa.record_batch({"id": pa.array([1, 2]), "a": pa.array([None, {"x": 1}], kind)})
    with StagedFile(open_store(tmp_path), "rows.parquet") as staged:
        staged.write(rows)
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == rows.to_pylist()
