"""A CSV file that ends inside a quoted value is refused, wherever it was cut, as by Python's strict reader."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.sources import records as records_module
from lakehouse_lib.ingestion.sources.csv import read_csv
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from tests.landed_files import landed
from tests.slow_cases import some_slow

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string())])
ONE_COLUMN = pa.schema([("a", pa.string())])
FORMAT = SourceFormat("csv", header=False, null_texts=("NULL",))
FIELDS = st.text(st.sampled_from('ab,"\r\né '), max_size=5)


def records(path: Path, schema: pa.Schema = SCHEMA, source_format: SourceFormat = FORMAT) -> list[list[str]] | None:
    """The rows and the texts of faulty records in the file's order; None if the file is refused."""
    numbered_rows: list[tuple[int, list[str]]] = []
    before = 0
    try:
        for parse in read_csv(landed(path), source_format, schema):
            block = parse()
            rows = zip(*(text.to_pylist() for text in block.texts), strict=True)
            lines = [before + line for line in (*block.lines().to_pylist(), *block.faulty.lines)]
            numbered_rows += zip(lines, [*map(list, rows), *([raw] for raw in block.faulty.raw)], strict=True)
            before += block.line_count
    except SourceRefusedError as error:
        # A header without an end is not a header.
        assert "never closed" in str(error) or "cannot infer number of columns" in str(error)  # noqa: PT017
        return None
    return [row for _, row in sorted(numbered_rows, key=lambda pair: pair[0])]


def by_python(text: str) -> list[list[str]] | None:
    try:
        return [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        assert "unexpected end of data" in str(error)  # noqa: PT017 - None is another answer
        return None


@pytest.mark.parametrize("columns", some_slow([2, 1], 1))
@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=3), st.sampled_from(["\n", "\r\n"]))
def test_cut_at_every_character(
    tmp_path_factory: pytest.TempPathFactory, columns: int, pairs: list[tuple[str, str]], end: str
) -> None:
    rows = [pair[:columns] for pair in pairs]
    schema = pa.schema(list(SCHEMA)[:columns])
    path = tmp_path_factory.getbasetemp() / "torn.csv"
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(rows)
    text = out.getvalue()
    for cut in range(1, len(text) + 1):
        path.write_bytes(text[:cut].encode())
        expected, parsed_rows = by_python(text[:cut]), records(path, schema)
        if expected is None:
            assert parsed_rows is None, text[:cut]
            continue
        assert parsed_rows is not None, text[:cut]
        # Records before the last one are whole. The last one may be `"a"`, cut from `"a""b"`.
        whole = [row for row in expected if len(row) == columns]
        assert [row for row in parsed_rows if len(row) == columns] == whole
        assert whole[:-1] == [list(row) for row in rows[: max(0, len(whole) - 1)]]


OPEN = [
    *('1,"b', '1,"', '1,"b""', '1,"""', '1,"b\n', '1,"b\n2,c\n', '"1","b', '"1'),
    *('x,5"\n1,"b', '1,"x,\n"",y', '1,2,"b'),
]
CLOSED = [
    *('1,"b"', '1,""', '1,"b"""', '1,""""', '1,"b"\n\n', "1,b", '1,5"', '1,b""'),
    *('x,5"\n1,"b"', '1,"a\nb"', '1,"a,"', "1"),
]


@pytest.mark.parametrize("before", ["", '"a","b"\n', 'x,"a ""quoted"" text"\r\n', '5"" x,6" y\n'])
@pytest.mark.parametrize(("text", "is_open"), [*((text, True) for text in OPEN), *((text, False) for text in CLOSED)])
@pytest.mark.parametrize("size", [8 << 20, 32])
def test_ends_in_quotes_or_not(
    tmp_path: Path, before: str, text: str, is_open: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_module, "BLOCK_SIZE", size)
    (tmp_path / "a.csv").write_bytes((before + text).encode())
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((before + text).encode()))
    assert [records(tmp_path / name) is None for name in ("a.csv", "a.csv.gz")] == [is_open, is_open]


@pytest.mark.parametrize("text", [text for text in OPEN if not text.startswith(('x,5"', "1,2,", '1,"x'))])
def test_duckdb_refuses_them_too(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text('"7","8"\n' + text)
    columns = "{'a': 'VARCHAR', 'b': 'VARCHAR'}"
    query = f"SELECT * FROM read_csv('{tmp_path}/a.csv', columns={columns}, header=false, quote='\"', delim=',')"
    with duckdb.connect() as connection, pytest.raises(duckdb.Error):
        connection.sql(query).fetchall()


def test_a_file_of_line_breaks_cut_inside_its_last_value(tmp_path: Path) -> None:
    """The last quote opens a value. Read as a closing quote, it would complete the file, with one more row."""
    path = tmp_path / "a.csv"
    for text, expected in (('"x\n"\n"\n', None), ('"x\n"\n"\n"', [["x\n"], ["\n"]]), ('"x\n"\n', [["x\n"]])):
        path.write_bytes(text.encode())
        assert records(path, ONE_COLUMN) == expected


@pytest.mark.parametrize("text", ['"b', 'a,"b', '"a","', '"a","b\n1,2\n'])
def test_a_file_cut_inside_its_header(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    schema = SCHEMA if "," in text else pa.schema([("b", pa.string())])
    assert records(path, schema, replace(FORMAT, header=True)) is None


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("columns", [1, 2])
@given(st.data())
def test_each_byte_inside_a_quoted_value_refuses_the_file(
    tmp_path_factory: pytest.TempPathFactory, header: bool, columns: int, data: st.DataObject
) -> None:
    """Every byte between the quotes of each value is known from the writer, so every cut must be refused."""
    source_format = replace(FORMAT, header=header, delimiter=data.draw(st.sampled_from([",", "a", ";"])))
    schema = pa.schema(list(SCHEMA)[:columns])
    rows = data.draw(st.lists(st.lists(FIELDS, min_size=columns, max_size=columns), min_size=1, max_size=3))
    end, text, inside = data.draw(st.sampled_from(["\n", "\r\n", "\r"])), b"", set()
    for row in [["a", "b"][:columns], *rows] if header else rows:
        for place, value in enumerate(row):
            quoted = value.replace('"', '""').encode()
            text += source_format.delimiter.encode() if place else b""
            # After the first of two quotes the value seems to be closed.
            for length in range(len(quoted) + 1):
                # pyarrow has no message for a record that lacks fields and ends inside a character, and refuses the
                # file.
                is_cut = place + 1 < columns and quoted[:length].decode(errors="ignore").encode() != quoted[:length]
                if not is_cut and (len(quoted[:length]) - len(quoted[:length].rstrip(b'"'))) % 2 == 0:
                    inside.add(len(text) + 1 + length)
            text += b'"' + quoted + b'"'
        text += end.encode()
    path = tmp_path_factory.getbasetemp() / "torn.csv"
    path.write_bytes(text)
    whole = list(csv.reader(io.StringIO(text.decode(), newline=""), delimiter=source_format.delimiter, strict=True))
    assert records(path, schema, source_format) == whole[header:] == rows
    for cut in inside:
        path.write_bytes(text[:cut])
        assert records(path, schema, source_format) is None, text[:cut]


def test_an_end_without_a_line_break_makes_no_record(tmp_path: Path) -> None:
    path, schema = tmp_path / "a.csv", pa.schema([("c", pa.string())])
    for header in (False, True):
        source_format = replace(FORMAT, header=header)
        for text, expected in (("c\nx", 2), ("c\nx\n", 2), ("c\nx\r", 2), ("c\nx\n\n", 3), ("c", 1), ("c\n", 1)):
            path.write_bytes(text.encode())
            rows = records(path, schema, source_format)
            assert rows is not None
            assert len(rows) == expected - header


@pytest.mark.parametrize("text", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("header", [False, True])
def test_an_empty_file_stays_empty(tmp_path: Path, text: bytes, header: bool) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text)
    with pytest.raises(SourceRefusedError, match="Empty CSV file"):
        list(read_csv(landed(path), replace(FORMAT, header=header), ONE_COLUMN))


def test_a_last_record_without_a_line_break_may_end_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "BLOCK_SIZE", 32)
    path = tmp_path / "a.csv.gz"
    for length in range(40, 100):
        rows = [["x", str(number)] for number in range(100, 100 + length // 6)]
        rows[-1][1] += "y" * (length % 6)
        path.write_bytes(gzip.compress("\n".join(map(",".join, rows)).encode()))
        assert records(path) == rows


def test_an_empty_last_field_after_a_quoted_one_is_null(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text in ('"x",', '"x",\n', '"x","y"\n"x",'):
        path.write_bytes(text.encode())
        (block,) = [parse() for parse in read_csv(landed(path), replace(FORMAT, null_texts=("",)), SCHEMA)]
        assert block.texts[1].to_pylist()[-1] is None
