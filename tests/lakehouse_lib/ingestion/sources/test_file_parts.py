"""A file that is read in parts gives the same rows, rejected rows and lines as the whole file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.batches.shares import file_parts, part_counts
from lakehouse_lib.ingestion.file_part import FilePart, PartLines
from lakehouse_lib.ingestion.landing import Fingerprint, LandedFile
from lakehouse_lib.ingestion.quarantine import LINE_COLUMN, Origin
from lakehouse_lib.ingestion.sources import file_head, records
from lakehouse_lib.ingestion.sources.file_head import FileHead, read_head
from lakehouse_lib.ingestion.sources.json import reader as json_reader
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.parse import Parser
from lakehouse_lib.store import open_store
from tests.landed_files import landed

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
CSV = SourceFormat("csv", quote="")
LINES = SourceFormat("csv", line_breaks=False)
JSON = SourceFormat("json")
MIB = 1 << 20
# pyarrow prints the text of a record that is not UTF-8 and has a wrong number of fields.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BLOCK_SIZE", 24)
    monkeypatch.setattr(json_reader, "BLOCK_SIZE", 24)


@dataclass(frozen=True)
class Content:
    """What a file has: valid rows with their lines, rejected rows, and its number of lines."""

    rows: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    lines: int


def parser(source_format: SourceFormat, folder: Path) -> Parser:
    schema = SCHEMA.append(pa.field("_rescued", pa.string())) if source_format.evolution == "rescue" else SCHEMA
    return Parser(source_format, schema, (), open_store(str(folder)).limits)


def read(file: LandedFile, by: Parser, lines: PartLines | None = None) -> Content:
    """The content of a file or of a part of it; with ``lines``, its lines are those of the file."""
    rows, rejected, count = [], [], 0
    for block in by.read(file, Origin("erp", 0, file.name), 0):
        staged = block.staged(by.schema)
        faulty = pa.Table.from_batches(block.rejected.to_batches(), block.rejected.schema).combine_chunks().to_batches()
        if lines is not None:
            staged, faulty = lines.placed(staged, LINE_COLUMN), [lines.placed(batch, "_line") for batch in faulty]
        rows += staged.to_pylist()
        rejected += [row for batch in faulty for row in batch.to_pylist()]
        count += block.line_count
    return Content(rows, sorted(rejected, key=lambda row: row["_line"]), count)  # a block has them by kind


def refusal_or(content: Any) -> Any:
    try:
        return content()
    except SourceRefusedError as error:
        return str(error)


def in_parts(file: LandedFile, by: Parser, cuts: Sequence[int], columns: tuple[str, ...]) -> Content | str:
    """The content of all parts, or the first refusal."""
    places = [0, *cuts, file.file.size]
    parts = [
        replace(file, part=FilePart(number, begin, end, columns))
        for number, (begin, end) in enumerate(pairwise(places))
    ]
    counts = [refusal_or(lambda part=part: read(part, by)) for part in parts]
    for count in counts:
        if isinstance(count, str):
            return count
    lines = PartLines.of([(file.name, part.part, count.lines) for part, count in zip(parts, counts, strict=True)])
    contents = [read(part, by, lines) for part in parts]
    return Content(
        [row for content in contents for row in content.rows],
        [row for content in contents for row in content.rejected],
        sum(content.lines for content in contents),
    )


def check(path: Path, source_format: SourceFormat, head: int, cuts: Sequence[int]) -> Content | str:
    """Compare a file with its parts, which begin at some of the cuts after the head; returns its content."""
    assert source_format.is_split
    by, file = parser(source_format, path.parent), landed(path)
    whole = refusal_or(lambda: read(file, by))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_head, "HEAD_BYTES", head)
        file_start = read_head(file, source_format)
    places = sorted({cut for cut in cuts if head <= cut < file.file.size})
    if file_start is not None:
        parts = in_parts(file, by, places, file_start.columns)
        if isinstance(whole, str) and "codec can't decode" in whole:  # the error counts from the start of a read
            assert isinstance(parts, str)
            return whole
        assert parts == whole
    return whole


ENDS = st.sampled_from([b"\n", b"\r\n"])
CUTS = st.lists(st.integers(1, 400), max_size=6)
PLAIN = (b"", b"1", b"22", b"x", b"\xe9", b"\xc3\xa9", b"\x81", b"a" * 90, b" ", b"#", b"NULL", b"\xef\xbb\xbf")
QUOTED = (b'"q,r"', b'"', b'"o', b'p"', b'"s""t"', b'5" q', b'""')
FIELDS = st.sampled_from([*PLAIN, *QUOTED])
RECORDS = st.lists(FIELDS, min_size=0, max_size=3).map(b",".join)
FORMATS = st.builds(
    replace,
    st.sampled_from([CSV, LINES]),
    header=st.booleans(),
    comment=st.sampled_from(["", "#"]),
    skip_lines=st.integers(0, 2),
    encoding=st.sampled_from(["utf-8", "latin-1", "cp1252"]),
    null_texts=st.sampled_from([("",), ("NULL", "")]),
)


@given(
    FORMATS,
    st.lists(st.tuples(st.one_of(RECORDS, st.integers(0, 99).map(lambda n: b"%d,n" % n)), ENDS), max_size=30),
    st.booleans(),
    st.booleans(),
    CUTS,
)
@example(replace(CSV, header=False), [(b"", b"\n"), (b"\xef\xbb\xbf1,x", b"\n")], True, False, [1])
def test_parts_of_csv(
    tmp_path_factory: pytest.TempPathFactory,
    source_format: SourceFormat,
    lines: list[tuple[bytes, bytes]],
    has_last_end: bool,
    has_mark: bool,
    cuts: list[int],
) -> None:
    head = b"skipped\n" * source_format.skip_lines + (b"#c\r\n" if source_format.comment else b"")
    head += b"note,id\n" if source_format.header else b""
    body = b"".join(record + end for record, end in lines)
    mark = b"\xef\xbb\xbf" if has_mark and source_format.is_utf8 else b""
    path = tmp_path_factory.getbasetemp() / "parts.csv"
    path.write_bytes(mark + head + (body if has_last_end else body.rstrip(b"\r\n")))
    check(path, source_format, len(mark + head) or 1, [len(head) + cut for cut in cuts])


OBJECTS = st.sampled_from(
    [
        *(b'{"id":1,"note":"x"}', b'{"id":"2"}', b'{"id":"bad"}', b'{"id":3,"other":4}', b'{"id":', b"[]", b"", b" "),
        *(b'{"note":"\xe9"}', b'{"note":"%s"}' % (b"a" * 90), b'{"id":1,"id":2}', b'\xef\xbb\xbf{"id":5}', b"{}"),
    ]
)


@given(
    st.builds(
        replace,
        st.just(JSON),
        encoding=st.sampled_from(["utf-8", "cp1252"]),
        evolution=st.sampled_from(["refuse", "rescue"]),
    ),
    st.lists(st.tuples(OBJECTS, ENDS), min_size=1, max_size=30),
    st.booleans(),
    st.integers(1, 60),
    CUTS,
)
def test_parts_of_json_lines(
    tmp_path_factory: pytest.TempPathFactory,
    source_format: SourceFormat,
    lines: list[tuple[bytes, bytes]],
    has_last_end: bool,
    head: int,
    cuts: list[int],
) -> None:
    body = b"".join(record + end for record, end in lines)
    path = tmp_path_factory.getbasetemp() / "parts.json"
    path.write_bytes(body if has_last_end else body.rstrip(b"\r\n"))
    check(path, source_format, head, cuts)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
def test_each_cut_of_a_file_with_every_kind_of_line(tmp_path: Path, end: str) -> None:
    lines = ["id,note", "1,x", "", "bad,y", "1,2,3", f"2,{'a' * 30}", "3,z", "", "4,last"]
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(lines).encode())
    head = len(lines[0] + end) if "\n" in end else 1
    for cut in range(head, path.stat().st_size):
        whole = check(path, CSV, head, [cut, cut + 3])
        assert isinstance(whole, Content)
        assert [row["_line"] for row in whole.rejected] == [4, 5]


def test_rows_of_errors_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,note\n" + b"1,x\n" * 50 + b"1,\xff,3\n" + b"1,x\n" * 50)
    whole = check(path, CSV, 8, [100, 200, 300])
    assert isinstance(whole, str)
    assert "#52" in whole


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_parts_have_row_groups_or_stripes(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    tables = [pa.table({"id": range(n * 5000, (n + 1) * 5000), "note": ["x"] * 5000}, schema) for n in range(7)]
    if kind == "parquet":
        with pq.ParquetWriter(path, schema) as writer:
            for table in tables:
                writer.write_table(table)
    else:
        with orc.ORCWriter(path, stripe_size=1024, batch_size=5000) as writer:
            for table in tables:
                writer.write(table)
    head = read_head(landed(path), SourceFormat(kind))
    assert head is not None
    assert head.most_parts is not None
    assert head.most_parts > 3
    size = path.stat().st_size
    whole = check(path, SourceFormat(kind), 1, [size // 5, size // 2, size - 1])
    assert isinstance(whole, Content)
    assert [row[LINE_COLUMN] for row in whole.rows] == list(range(1, 35001))


def counts(source_format: SourceFormat, *sizes: int, name: str = "{}.csv", tasks: int = 4) -> list[int]:
    files = [Fingerprint(name.format(number), size, 0, "") for number, size in enumerate(sizes)]
    chosen = part_counts(files, source_format, tasks=tasks, data_file_size=100 * MIB)
    return [chosen.get(file.name, 1) for file in files]


def test_a_file_larger_than_a_share_is_split() -> None:
    assert counts(CSV, 300 * MIB, tasks=2) == [2]
    assert counts(CSV, 300 * MIB) == [4]
    assert counts(CSV, 90 * MIB) == [1]
    assert counts(CSV, 1000 * MIB, *[10 * MIB] * 20) == [3, *[1] * 20]
    assert counts(CSV, 50 << 30, tasks=16) == [64]
    assert counts(CSV, 99 << 29, tasks=1) == [50]


@pytest.mark.parametrize(
    ("source_format", "name"),
    [
        (CSV, "{}.csv.gz"),
        (JSON, "{}.json.zst"),
        (SourceFormat("csv"), "{}.csv"),  # a quoted field may have line breaks
        *((replace(CSV, encoding=encoding), "{}.csv") for encoding in ("utf-16", "utf-32", "utf-8-sig", "shift_jis")),
        (replace(CSV, encoding="cp037"), "{}.csv"),
        (SourceFormat("json_array"), "{}.json"),
    ],
)
def test_other_files_are_not_split(source_format: SourceFormat, name: str) -> None:
    assert counts(source_format, 10 << 30, name=name) == [1]


@given(st.lists(st.integers(0, 5 << 30), min_size=1, max_size=10), st.integers(1, 20), st.integers(1, 9))
def test_parts_cover_their_files(sizes: list[int], tasks: int, groups: int) -> None:
    files = [Fingerprint(f"{number}.csv", size, 0, "") for number, size in enumerate(sizes)]
    chosen = part_counts(files, CSV, tasks=tasks, data_file_size=100 * MIB)
    heads = {name: FileHead(most_parts=groups if number % 2 else None) for number, name in enumerate(chosen)}
    parts = file_parts(files, chosen, heads)
    assert len({part.number for _, part in parts if part.number}) == sum(part.begin > 0 for _, part in parts)
    for file in files:
        own = [part for of, part in parts if of is file]
        assert len(own) != 1
        assert [part.end for part in own] == [*(part.begin for part in own[1:]), *([file.size] if own else [])]
        assert all(part.end - part.begin >= MIB for part in own)
        assert [part.number == 0 for part in own] == [place == 0 for place in range(len(own))]
