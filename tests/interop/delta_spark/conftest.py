"""A process of delta-spark, and the results of `make interop`: one line for each table, printed at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.delta_spark.peer import Peer, delta_spark

#: table -> reader -> the results of its versions
OUTCOMES: dict[str, dict[str, str]] = defaultdict(dict)
READERS = ("arrow", "spark", "conditions", "changes", "duckdb")


@pytest.fixture
def outcomes() -> dict[str, dict[str, str]]:
    return OUTCOMES


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    with delta_spark() as process:
        yield process


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="replace the record of the matrix of docs/interop.md")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not OUTCOMES:
        return
    lines = [["table", "versions", *READERS]]
    for name, row in OUTCOMES.items():
        lines.append([name, row.get("versions", ""), *(row.get(reader, "") for reader in READERS)])
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    terminalreporter.section("what delta-spark wrote, as others read it")
    for line in lines:
        terminalreporter.write_line(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        )
