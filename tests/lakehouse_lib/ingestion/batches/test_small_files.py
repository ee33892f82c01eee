"""Small files are parsed together: the rows, the rejected rows and their files and lines are those of each file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.batches.files import suite_on_arrow
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.quarantine import Origin
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks import file_task
from lakehouse_lib.ingestion.tasks.parse import ParsedBlock, Parser
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import open_store
from tests.landed_files import landed
from tests.spark_jobs.loading import Shop

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("note", pa.string())])
CSV_ROWS = (
    *(b"1,2.5,x", b"2,3,", b"x,1,y", b"1,2", b"1,2,3,4", b"", b",,", b'3,-4,"a\n\nb"', b'4,5,"c\r\nd"', b'5,6,"e\rf"'),
    *(b'6,7,5" pipe', b"7,8,\xff\xfe", b"8,1e400,z", b'9,9,"q""q"', b"10,1,\xc3\xa4"),
)
JSON_ROWS = (
    *(b'{"id": 1, "price": 2.5, "note": "x"}', b'{"id":"2","price":3}', b'{"id": 1}{"id": 2}', b"", b"[]", b"{"),
    *(b'{"id":"x","note":"y"}', b'{"id":3,"other":1}', b'{"id":4,"price":-1}', b'{"note":"\xff"}', b'{"id":5,"id":6}'),
)
ENDS = (b"\n", b"\n", b"\r\n", b"\r")


@st.composite
def contents(draw: st.DrawFn, kind: str) -> bytes:
    rows = draw(st.lists(st.sampled_from(CSV_ROWS if kind == "csv" else JSON_ROWS), max_size=6))
    if kind == "csv":
        header = draw(st.sampled_from([b"id,price,note"] * 12 + [b'"id",price,note', b"note,price,id", b"id"]))
        rows = [header, *rows, *draw(st.sampled_from([[]] * 12 + [[b'1,2,"open']]))]
    end = draw(st.sampled_from(ENDS))
    start = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return start + end.join(rows) + draw(st.sampled_from([b"", end]))


def rule(identity: str, minimum: int, share: float) -> dict[str, Any]:
    kwargs = {"column": "price", "min_value": minimum, "mostly": share}
    return {"type": "expect_column_values_to_be_between", "kwargs": kwargs, "meta": {"rule_id": identity}}


def shown(blocks: Sequence[ParsedBlock]) -> tuple[Any, ...]:
    findings = [block.findings.counts for block in blocks if block.findings is not None]
    return (
        [row for block in blocks for row in map(repr, block.staged(SCHEMA).to_pylist())],
        sorted(repr(row) for block in blocks for row in block.rejected.to_pylist()),
        [repr(row) for block in blocks if block.apart is not None for row in block.apart.to_pylist()],
        sum(findings[1:], findings[0]) if findings else None,
    )


def origin(file: str) -> Origin:
    return Origin("erp", 0, file)


def refusals(read: Callable[[], Any]) -> Any:
    """What a reader returns; None: it refuses a file."""
    try:
        return read()
    except SourceRefusedError:
        return None


@pytest.mark.parametrize("kind", ["csv", "json"])
@settings(max_examples=25)
@given(data=st.data(), share=st.sampled_from([None, 1, 0.5]))
def test_rows_come_from_the_same_places(kind: str, data: st.DataObject, share: float | None) -> None:
    texts = data.draw(st.lists(contents(kind), min_size=1, max_size=4))
    suite = share and suite_on_arrow({"name": "s", "expectations": [rule("r", 0, share)]}, Schema.from_arrow(SCHEMA))
    with tempfile.TemporaryDirectory() as folder:
        parser = Parser(SourceFormat(kind), SCHEMA, (), open_store(folder).limits, suite or None)
        files = []
        for number, text in enumerate(texts):
            path = Path(folder) / f"{number}.{kind}"
            path.write_bytes(text)
            files.append(landed(path))
        alone = refusals(lambda: [block for file in files for block in parser.read(file, origin(file.name), 0)])
        together = refusals(lambda: parser.read_together(files, origin("")))
    if alone is None or together is None:
        assert together is None
        return
    assert shown([together]) == shown(alone)


def test_a_group_is_parsed_file_by_file_if_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path)
    for number in range(6):
        shop.land(f"{number}.csv", f"{number},5,x", "bad,1,y")
    shop.land("3.csv", '1,5,"open')
    (shop.landing / "4.csv").write_text("note,price,id\nx,5,4\n")
    together: list[ParsedBlock | None] = []
    read = Parser.read_together

    def read_together(parser: Parser, files: Sequence[LandedFile], start: Origin) -> ParsedBlock | None:
        together.append(read(parser, files, start))
        return together[-1]

    monkeypatch.setattr(Parser, "read_together", read_together)
    monkeypatch.setattr(file_task, "_TOGETHER_BYTES", 60)
    result = Load(shop.source(files_per_batch=100)).run()
    assert set(result.refused) == {"3.csv"}
    assert shop.ids() == [0, 1, 2, 4, 5]
    assert [row[:2] for row in shop.quarantined()] == [(f"{number}.csv", 3) for number in (0, 1, 2, 5)]
    assert [block is not None for block in together].count(True) >= 1
