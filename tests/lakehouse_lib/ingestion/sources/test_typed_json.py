"""pyarrow parses the lines of a block of JSON for which the exact parser would give the same rows."""

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
from lakehouse_lib.ingestion.sources.json import typed_columns as typed_columns_module
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
    "f": ["1.5", "0", "-0.0", "-0", "1e-5", "1e400", "1e-400", "NaN", "12345678901234567890", '"1"'],
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
    """Lines of objects; most of them are valid, so that pyarrow parses most lines, and in most blocks all of them."""
    is_valid = draw(st.integers(0, 3)) > 0
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        values = VALID if is_valid or draw(st.booleans()) else VALUES
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


@given(lines(), st.sampled_from([1, 2, 16]))
def test_rows_and_rejects_are_those_of_the_exact_parser(
    tmp_path_factory: pytest.TempPathFactory, text: str, few_lines: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.json"
    path.write_text(text, newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_reader, "typed_columns", lambda *_: None)
        exact = parsed(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed_columns_module, "_FEW_LINES", few_lines)
        patch.setattr(typed_columns_module, "_MOST_PASSES", 1_000)
        assert parsed(path) == exact


def test_only_doubtful_lines_are_left_to_the_exact_parser() -> None:
    clean = {"i": 1, "p": 1.25, "f": 0, "g": 0.5, "b": True, "s": "x", "d": "2024-01-31", "t": None, "x": "ab"}
    clean |= {"l": [0.5, None], "n": {"k": "a", "e": [{"p": 1}, {}]}}
    line = json.dumps(clean).encode() + b"\n"
    # An object on two lines and two objects on one line are as many rows as lines.
    for doubtful in (
        b"",
        b"\n",
        b'{"i":\n1}\n' + line[:-1] + line,
        b'{"i": "3"}\n',
        b'{"i": 1.5}\n',
        b'{"i": 1, "z": 1}\n',
        b'{"p": 99999999999999}\n',
        b'{"s": "\xff"}\n',
        b'{"f": 1e-400}\n',
        b'{"f": -0}\n',
        b'{"l": [-0]}\n',
        b'{"d": "x"}\n',
        b'{"n": {}}\n',
        b'{"n": {"k": "a", "t": "10000-01-01"}}\n',
    ):
        parsed_lines = typed_columns(line * 1000 + doubtful + line * 1000, SCHEMA)
        assert parsed_lines is not None
        expected = [*range(1000), *range(1000 + doubtful.count(b"\n"), 2000 + doubtful.count(b"\n"))]
        # Where pyarrow does not say in which row it stops, some lines around the doubtful ones are left, too.
        assert set(parsed_lines.lines) <= set(expected)
        assert len(expected) - len(parsed_lines.lines) <= 16
        assert sorted([*parsed_lines.lines, *parsed_lines.rest]) == [*range(2000 + doubtful.count(b"\n"))]
        assert {len(column) for column in parsed_lines.columns} == {len(parsed_lines.lines)}


def test_zeros_with_a_sign_are_parsed_by_pyarrow() -> None:
    parsed_lines = typed_columns(b'{"f": -0.0, "l": [-0e0]}\n' * 1000, SCHEMA)
    assert parsed_lines is not None
    assert len(parsed_lines.lines) == 1000


def test_a_block_of_many_doubtful_lines_is_left_to_the_exact_parser() -> None:
    assert typed_columns(b'{"i": 1}\n{"i": "2"}\n' * 1000, SCHEMA) is None
