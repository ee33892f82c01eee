"""pyarrow parses a block of JSON lines only if the exact parser would give the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.ingestion.quarantine import Origin
from lakehouse_lib.ingestion.sources.json import reader as json_reader
from lakehouse_lib.ingestion.sources.json.typed_columns import typed_columns
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.parse import Parser
from lakehouse_lib.store import open_store
from tests.landed_files import landed

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("p", pa.decimal128(15, 2)),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("x", pa.binary()),
        ("l", pa.list_(pa.field("element", pa.float64()))),
        (
            "n",
            pa.struct(
                [
                    pa.field("k", pa.string(), nullable=False),
                    pa.field("t", pa.timestamp("us", "UTC")),
                    pa.field("e", pa.list_(pa.field("element", pa.struct([("p", pa.decimal128(15, 2))]), False))),
                ]
            ),
        ),
    ]
)
VALUES = {
    "i": ["1", "-2", "0", "2147483648", "1.0", '"3"', "01"],
    "p": ["1.25", "-1", "1E2", "1.999", "99999999999999", "123456789012345678", "1e40", '"2.5"', '" 1"'],
    "f": ["1.5", "0", "-0.0", "1e-5", "1e400", "1e-400", "NaN", "12345678901234567890", '"1"'],
    "g": ["0.1", "1e39", "1e-50", "3"],
    "b": ["true", "false", "1", '"true"'],
    "s": ['"x"', '""', '"\\u00e9"', '"\\ud83d"', '"\\u0000"', '"a\tb"', "1", "[1]"],
    "d": ['"2024-01-31"', '""', '"2024-02-31"', '"10000-01-01"', "1"],
    "t": ['"2024-01-31T10:00:00Z"', '"2024-01-31"', '"x"'],
    "x": ['"ab"', '"\\u0001"'],
    "l": ["[1.5, null]", "[]", "[1e-400]", "[[1]]", "{}", "1", '["2"]', "[NaN]"],
    "n": [
        '{"k": "a", "t": "2024-01-31", "e": [{"p": 1.25}, {}, {"p": null}]}',
        '{"e": [], "k": "é", "t": null}',
        '{"k": "b", "e": [{"p": 1.999}, {"p": "2"}, {"p": 99999999999999}, {"q": 1}, 5]}',
        '{"k": "b", "e": [{"p": 1}, null]}',
        '{"k": "c", "t": "10000-01-01"}',
        '{"k": "d", "t": "x", "e": 1, "z": [1]}',
        '{"k": "d", "k": "e"}',
        '{"k": null}',
        "{}",
        "[]",
        '"{}"',
        '{"k": [1.10]}',
    ],
}
VALID = {name: texts[: 1 if name in "tx" else 2] for name, texts in VALUES.items()}


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Lines of objects; most of them are valid, so that most blocks are parsed by pyarrow."""
    values = VALUES if draw(st.integers(0, 3)) == 0 else VALID
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        names = draw(st.lists(st.sampled_from(SCHEMA.names), unique=True))
        members = [f'"{name}": {draw(st.sampled_from(["null", *values[name]]))}' for name in names]
        row = "{" + ", ".join(members) + "}"
        if values is VALUES:
            row = draw(
                st.sampled_from([row] * 8 + [row + row, row[:-1], " " + row, "", row.replace(",", ",\n", 1), "[1]"])
            )
        rows.append(row)
    return draw(st.sampled_from(["\n", "\r\n"])).join(rows) + draw(st.sampled_from(["", "\n"]))


def parsed(path: Path) -> list[Any]:
    parser = Parser(SourceFormat("json"), SCHEMA, (), open_store(path.parent).limits)
    blocks = list(parser.read(landed(path), Origin("erp", 0, path.name), 0))
    rows = [
        (line, repr(row))
        for block in blocks
        for line, row in zip(block.origins.of(block.lines())[1].to_pylist(), block.rows.to_pylist(), strict=True)
    ]
    return [rows, sorted((row["_line"], repr(row)) for block in blocks for row in block.rejected.to_pylist())]


@given(lines())
def test_rows_and_rejects_are_those_of_the_exact_parser(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.json"
    path.write_text(text, newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "typed_columns", lambda *_: None)
        exact = parsed(path)
    assert parsed(path) == exact


def test_clean_blocks_are_parsed_by_pyarrow_and_doubtful_ones_are_not() -> None:
    clean = {"i": 1, "p": 1.25, "f": 0, "g": 0.5, "b": True, "s": "x", "d": "2024-01-31", "t": None, "x": "ab"}
    clean |= {"l": [0.5, None], "n": {"k": "a", "e": [{"p": 1}, {}]}}
    line = json.dumps(clean).encode() + b"\n"
    columns = typed_columns(line * 3, SCHEMA)
    assert columns is not None
    assert [len(column) for column in columns] == [3] * len(SCHEMA)
    # An object on two lines and two objects on one line are as many rows as lines.
    for doubtful in (
        line + b"\n",
        b'{"i":\n1}\n' + line[:-1] + line,
        b'{"s": "\xff"}\n',
        b'{"f": 1e-400}\n',
        b'{"d": "x"}',
        b'{"n": {}}',
        b'{"n": {"k": "a", "t": "10000-01-01"}}',
    ):
        assert typed_columns(doubtful, SCHEMA) is None
