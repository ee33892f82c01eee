"""A CSV file that ends inside a quoted value is refused, wherever it was cut; Python's strict reader is the judge."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion import csv_source
from lakehouse_lib.ingestion.csv_source import read_csv
from lakehouse_lib.ingestion.source_format import SourceFormat

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string())])
FORMAT = SourceFormat("csv", header=False, null_text="NULL")
FIELDS = st.text(st.sampled_from('ab,"\r\né '), max_size=5)


def records(path: Path, schema: pa.Schema = SCHEMA) -> list[list[str]] | None:
    """The rows and the texts of faulty records in the file's order; None when the file is refused."""
    found: list[tuple[int, list[str]]] = []
    try:
        for block in read_csv(path, FORMAT, schema):
            rows = zip(*(text.to_pylist() for text in block.texts), strict=True)
            found += zip(block.lines.to_pylist(), map(list, rows), strict=True)
            found += [(line, [raw]) for line, raw in zip(block.faulty.lines, block.faulty.raw, strict=True)]
    except SourceRefusedError as error:
        assert "never closed" in str(error)  # noqa: PT017 - None is another answer
        return None
    return [row for _, row in sorted(found, key=lambda one: one[0])]


def by_python(text: str) -> list[list[str]] | None:
    try:
        return [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        assert "unexpected end of data" in str(error)  # noqa: PT017 - None is another answer
        return None


@pytest.mark.parametrize("columns", [1, 2])
@settings(deadline=None)  # the first call imports
@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=3), st.sampled_from(["\n", "\r\n"]))
def test_cut_at_every_character(
    tmp_path_factory: pytest.TempPathFactory, columns: int, pairs: list[tuple[str, str]], end: str
) -> None:
    # In a file of one column, line breaks in values and between records cannot always be told apart at its end.
    rows = pairs if columns == 2 else [(first.strip("\r\n"),) for first, _ in pairs]
    schema = pa.schema(list(SCHEMA)[:columns])
    path = tmp_path_factory.getbasetemp() / "torn.csv"
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(rows)
    text = out.getvalue()
    for cut in range(1, len(text) + 1):
        path.write_bytes(text[:cut].encode())
        expected, found = by_python(text[:cut]), records(path, schema)
        if expected is None:
            assert found is None, text[:cut]
            continue
        assert found is not None, text[:cut]
        # Records before the last one are whole. The last may be `"a"`, which was `"a""b"`.
        whole = [row for row in expected if len(row) == columns]
        assert [row for row in found if len(row) == columns] == whole
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
@pytest.mark.parametrize(("text", "is_open"), [*((one, True) for one in OPEN), *((one, False) for one in CLOSED)])
@pytest.mark.parametrize("size", [8 << 20, 32])
def test_ends_in_quotes_or_not(
    tmp_path: Path, before: str, text: str, is_open: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_source, "BLOCK_SIZE", size)
    (tmp_path / "a.csv").write_bytes((before + text).encode())
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((before + text).encode()))
    assert [records(tmp_path / name) is None for name in ("a.csv", "a.csv.gz")] == [is_open, is_open]


@pytest.mark.parametrize("text", [one for one in OPEN if not one.startswith(('x,5"', "1,2,", '1,"x'))])
def test_duckdb_refuses_them_too(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text('"7","8"\n' + text)
    columns = "{'a': 'VARCHAR', 'b': 'VARCHAR'}"
    query = f"SELECT * FROM read_csv('{tmp_path}/a.csv', columns={columns}, header=false, quote='\"', delim=',')"
    with pytest.raises(duckdb.Error):
        duckdb.sql(query).fetchall()
