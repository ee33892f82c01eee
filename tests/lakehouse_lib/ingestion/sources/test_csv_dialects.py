"""CSV in the dialects that people send: preambles, comments, NULL texts, decimal commas, formats of times."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError, SourceRefusedError
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources import records
from lakehouse_lib.ingestion.sources.cells import typed_cells
from lakehouse_lib.ingestion.sources.csv import read_csv
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.sources.time_format import TimeFormat
from lakehouse_lib.schema import Field, Schema
from tests.landed_files import landed
from tests.spark_jobs.loading import Shop

CSV = SourceFormat("csv")
TEXTS = pa.schema([("a", pa.string()), ("b", pa.string())])


def read(path: Path, source_format: SourceFormat) -> list[tuple[int, str | None, str | None]]:
    """The line and the texts of each row."""
    rows, before = [], 1
    for parse in read_csv(landed(path), source_format, TEXTS):
        block = parse()
        assert not block.faulty.lines
        lines = [before + line for line in block.lines().to_pylist()]
        rows += list(zip(lines, *(text.to_pylist() for text in block.texts), strict=True))
        before += block.line_count
    return rows


def test_a_file_with_everything(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    lines = [
        'Report "of the month;',
        "made by hand;",
        "# the columns",
        "id;price;day;at;note",
        '1;1,50;31.12.2025;1/2/26 9:05;"# no comment',
        '# nor this";',
        "# \"a; comment's quote",
        "2;-;1.2.2026;n/a;n/a",
        "x;1.50;31.02.2026;1/2/26 24:05;#",
    ]
    (shop.landing / "a.csv").write_text("\r\n".join(lines).replace('";\r', '"\r'), encoding="utf-16")
    schema = Schema(
        [
            *(Field("id", "long"), Field("price", "decimal(15,2)"), Field("day", "date")),
            *(Field("at", "timestamp"), Field("note", "string")),
        ]
    )
    dialect = SourceFormat(
        "csv",
        delimiter=";",
        encoding="utf-16",
        null_texts=("-", "n/a"),
        comment="#",
        skip_lines=2,
        decimal=",",
        time_formats={"day": "d.M.yyyy", "at": "M/d/yy H:mm"},
    )
    Load(shop.source(schema=schema, format=dialect)).run()
    rows = DeltaTable(str(shop.table)).to_pyarrow_table().sort_by("id").to_pylist()
    at = dt.datetime(2026, 1, 2, 9, 5, tzinfo=dt.UTC)
    assert [tuple(row.values()) for row in rows] == [
        (1, Decimal("1.50"), dt.date(2025, 12, 31), at, "# no comment\r\n# nor this"),
        (2, None, dt.date(2026, 2, 1), None, None),
    ]
    (row,) = DeltaTable(str(shop.quarantine)).to_pyarrow_table().to_pylist()
    assert (row["_line"], row["price"], row["day"], row["note"]) == (9, "1.50", "31.02.2026", "#")
    assert [each["column"] for each in row["_violations"]] == ["id", "price", "day", "at"]


FIELDS = st.text(st.sampled_from("ab#\",\n;' "), max_size=6)
COMMENTS = st.text(st.sampled_from("a\",;#' "), max_size=5).map(lambda text: f"#{text}")


@given(
    st.lists(st.tuples(st.lists(COMMENTS, max_size=2), FIELDS, FIELDS), max_size=8),
    st.lists(st.text(st.sampled_from('a",# '), max_size=4), max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_comments_and_preambles_change_no_row(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[tuple[list[str], str, str]],
    preamble: list[str],
    line_end: str,
    has_header: bool,
    is_small: bool,
) -> None:
    lines, expected = preamble.copy(), []
    for comments, first, second in [(["#"], "a", "b"), *parts] if has_header else parts:
        lines += comments
        line = io.StringIO()
        csv.writer(line, quoting=csv.QUOTE_ALL).writerow([first, second])
        expected.append((1 + sum(1 + each.count("\n") for each in lines), first, second))
        lines.append(line.getvalue().removesuffix("\r\n"))
    if not lines[len(preamble) :]:
        return
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(line_end.join([*lines, ""]).encode())
    dialect = replace(CSV, comment="#", skip_lines=len(preamble), header=has_header, null_texts=("NULL",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BLOCK_SIZE", 8 if is_small else records.BLOCK_SIZE)
        assert read(path, dialect) == expected[has_header:]


def test_a_file_of_comments_or_of_a_shorter_preamble_is_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    (shop.landing / "a.csv").write_text("# x\n# y\n")
    (shop.landing / "b.csv").write_text("one line")
    (shop.landing / "c.csv").write_text("one\n# x\nid,price,note\n1,1,x")
    dialect = replace(CSV, comment="#", skip_lines=1)
    result = Load(shop.source(format=dialect, files_per_batch=3)).run()
    assert {name: reason.split(": ")[1].split(". ")[0] for name, reason in result.refused.items()} == {
        "a.csv": "Empty CSV file",
        "b.csv": "the file has fewer than 1 lines, which are to be skipped",
    }
    assert shop.ids() == [1]


FORMATS = {
    "yyyy-MM-dd": "%Y-%m-%d",
    "dd.MM.yyyy HH:mm": "%d.%m.%Y %H:%M",
    "yyyyMMddHHmmss": "%Y%m%d%H%M%S",
    "MM/dd/yyyy'T'HH:mm:ss.SSSSSS": "%m/%d/%YT%H:%M:%S.%f",
    "yyyy/MM/dd HH:mm:ss X": "%Y/%m/%d %H:%M:%S %z",
    "'on' yyyy''MM''dd (HH)": "on %Y'%m'%d (%H)",
}


@given(
    st.lists(st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 30)), min_size=1), st.sampled_from([*FORMATS])
)
def test_times_of_a_format_are_those_that_python_has_written(times: list[dt.datetime], pattern: str) -> None:
    zone = dt.timezone(dt.timedelta(hours=-3, minutes=-30)) if "X" in pattern else dt.UTC
    texts = [time.replace(tzinfo=zone).strftime(FORMATS[pattern]) for time in times]
    expected = [dt.datetime.strptime(text, FORMATS[pattern]) for text in texts]
    expected = [time if time.tzinfo else time.replace(tzinfo=dt.UTC) for time in expected]
    field = pa.field("a", pa.timestamp("us", "UTC"))
    values, wrong = typed_cells(pa.array([*texts, None]), field, replace(CSV, time_formats={"a": pattern}))
    assert not wrong.any()
    assert values.to_pylist() == [*expected, None]


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (
            "dd.MM.yyyy",
            ["29.02.2024"],
            ["29.02.2023", "1.02.2024", "01.13.2024", "2024-02-29", "01.02.24", " 01.02.2024"],
        ),
        ("d.M.yy", ["1.2.24", "31.12.99", "01.02.24"], ["1.2.2024", "0.1.24", "32.1.24"]),
        ("yyyy-MM-dd", ["0001-01-01", "2024-01-01"], ["2024-1-1", "2024-01-01T00:00:00", "", "2024-01-01\n"]),
    ],
)
def test_invalid_dates_are_rejected(pattern: str, good: list[str], bad: list[str]) -> None:
    dialect = replace(CSV, time_formats={"a": pattern})
    values, wrong = typed_cells(pa.array(good + bad), pa.field("a", pa.date32()), dialect)
    assert wrong.tolist() == [False] * len(good) + [True] * len(bad)
    assert values.null_count == len(bad)


def test_numbers_with_a_decimal_comma() -> None:
    texts = pa.array(["1,5", "-,25", "3", "1.5", "1,2,3", "1.234,5", None, "1,25e2"])
    dialect = replace(CSV, decimal=",")
    values, wrong = typed_cells(texts, pa.field("a", pa.float64()), dialect)
    assert wrong.tolist() == [False, False, False, True, True, True, False, False]
    assert values.to_pylist() == [1.5, -0.25, 3, None, None, None, None, 125]
    assert typed_cells(pa.array(["1,5"]), pa.field("a", pa.string()), dialect)[0].to_pylist() == ["1,5"]


def test_formats_of_times_in_json(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    rows = [{"id": 1, "day": "31.12.2025"}, {"id": 2, "day": "2025-12-31"}, {"id": 3, "day": None}]
    (shop.landing / "a.json").write_text("\n".join(map(json.dumps, rows)))
    schema = Schema([Field("id", "long"), Field("day", "date")])
    Load(shop.source(schema=schema, format=SourceFormat("json", time_formats={"day": "dd.MM.yyyy"}))).run()
    loaded = DeltaTable(str(shop.table)).to_pyarrow_table().sort_by("id").to_pylist()
    assert [row["day"] for row in loaded] == [dt.date(2025, 12, 31), None]
    assert shop.quarantined() == [("a.json", 2, "day", "not a valid date")]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"comment": ","}, "comment is ','"),
        ({"comment": "//"}, "comment is '//'"),
        ({"comment": "\n"}, r"comment is '\\n'"),
        ({"quote": "\r"}, r"quote is '\\r'"),
        ({"skip_lines": -1}, "skip_lines is -1"),
        ({"decimal": "·"}, "decimal is '·'"),
        ({"time_formats": {"a": "dd.MMM.yyyy"}}, "which has MMM"),
        ({"time_formats": {"a": "dd.MM"}}, "expected a year, a month and a day"),
        ({"time_formats": {"a": "dd.MM.yyyy ss"}}, "no gap in the time"),
        ({"time_formats": {"a": "dd.MM.yyyy 'at"}}, "a second quote"),
        ({"time_formats": {"a": "yyyy-MM-dd hh:mm a"}}, "which has hh"),
    ],
)
def test_options_that_are_not_valid(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason) as caught:
        SourceFormat("csv", **options)
    assert caught.value.code == "DELTA_INVALID_SOURCE"


@pytest.mark.parametrize(
    ("name", "kind", "pattern", "format_kind"),
    [
        ("b", "date", "yyyy-MM-dd", "csv"),
        ("a", "string", "yyyy-MM-dd", "csv"),
        ("a", "date", "yyyy-MM-dd HH", "csv"),
        ("a", "date", "yyyy-MM-dd", "parquet"),
    ],
)
def test_a_format_that_its_column_cannot_have(
    tmp_path: Path, name: str, kind: str, pattern: str, format_kind: str
) -> None:
    source = Shop(tmp_path).source(
        schema=Schema([Field("a", kind)]), format=SourceFormat(format_kind, time_formats={name: pattern})
    )
    with pytest.raises(InvalidSchemaError, match="the time format"):
        Load(source)


def test_formats_in_intents_of_now_and_of_earlier_releases() -> None:
    dialect = SourceFormat("csv", null_texts=("", "-"), time_formats={"a": "yyyy-MM-dd"})
    assert SourceFormat.from_json(json.loads(json.dumps(dialect.to_json()))) == dialect
    old = {"kind": "csv", "delimiter": ",", "quote": '"', "encoding": "utf-8", "header": True, "null_text": "-"}
    assert SourceFormat.from_json(old) == SourceFormat("csv", null_texts=("-",))
    assert TimeFormat("yyyy-MM-dd").has_time is False


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ('1,"two\nlines"\n', "'1,\"two'"),
        ('1,x\n2,"y"\n3,"z\r\n"\n4,"a"\n', "'3,\"z'"),
        ('1,"a""b\n', '\'1,"a""b\''),
        ('1,"a\rb"\n', "'1,\"a'"),
    ],
)
def test_a_field_with_a_line_break_that_the_dialect_excludes(tmp_path: Path, text: str, record: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode())
    dialect = replace(CSV, header=False, line_breaks=False)
    with pytest.raises(SourceRefusedError, match=re.escape(f"the record {record} has a quoted line break")):
        list(read_csv(landed(tmp_path / "a.csv"), dialect, TEXTS))


@pytest.mark.parametrize("record", [r'"say \"hi\" now",2', r'1,"\"hi"', '"a\\""b\\"c",2'])
def test_a_quote_that_a_backslash_escapes_refuses_the_file(tmp_path: Path, record: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"a,b\nx,y\n{record}\n")
    with pytest.raises(SourceRefusedError, match=r"a\.csv .* has a quote after a backslash; expected doubled quotes"):
        read(path, CSV)


def test_backslashes_at_the_ends_of_fields_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('a,b\n"C:\\","D:\\"\n5" \\",x\\"y\n"{""k"": ""\\""v\\""""}",z')
    assert read(path, CSV) == [(2, "C:\\", "D:\\"), (3, '5" \\"', 'x\\"y'), (4, '{"k": "\\"v\\""}', "z")]
    path.write_text(r'"say \"hi\" now",2')
    assert read(path, replace(CSV, quote="", header=False)) == [(1, r'"say \"hi\" now"', "2")]
