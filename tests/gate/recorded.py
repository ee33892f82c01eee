"""Rules with the verdicts of Great Expectations, recorded so that tests without Spark can compare them.

``python -m tests.gate --record`` records them again.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.ingestion.quality import read_rules
from tests.gate import judges
from tests.gate.random_rows import COLUMNS, random_rows

_FILE = Path(__file__).with_name("recorded_verdicts.json")


def recorded_rows() -> pa.Table:
    return random_rows(Random(2261), 60)


def recorded_rules() -> list[dict[str, Any]]:
    """Each with type, kwargs, broken (the positions of rows) and counted."""
    entries: list[dict[str, Any]] = json.loads(_FILE.read_text())
    return entries


def rules_of(entries: list[dict[str, Any]]) -> list[Rule]:
    expectations = [
        {"type": entry["type"], "kwargs": entry["kwargs"], "meta": {"rule_id": str(number)}}
        for number, entry in enumerate(entries)
    ]
    return read_rules({"expectations": expectations}, list(COLUMNS))


def record(spark: Any) -> None:
    entries = recorded_rules()
    with tempfile.TemporaryDirectory() as folder:
        frame = judges.spark_rows(spark, recorded_rows(), Path(folder))
        verdicts = judges.by_great_expectations(rules_of(entries), frame)
    for entry, verdict in zip(entries, verdicts, strict=True):
        entry |= {"broken": list(verdict.broken), "counted": verdict.counted}
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    _FILE.write_text(f"[\n{lines}\n]\n")
