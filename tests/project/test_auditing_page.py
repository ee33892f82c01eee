"""The examples of docs/auditing.md run as printed, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    page = (ROOT / "docs/auditing.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile("\n".join(block for block in blocks if "airflow.sdk" not in block), "docs/auditing.md", "exec"), names)
    columns = ("version", "operation", "user", "dag", "try", "predicate", "deleted")
    deletes = [tuple(row[name] for name in columns) for row in names["deletes"].arrow().read_all().to_pylist()]
    assert deletes == [
        (2, "DELETE", "ann", "orders_upkeep", "1", '["amount < 15"]', 1),
        (3, "DELETE", None, None, None, '["id = 4"]', 1),
    ]
    ((_, version, user, run, *counts, _),) = names["merges"].fetchall()
    assert (version, user, run, counts[:3]) == (1, "ann", "scheduled__2026-11-23", ["1", "1", "0"])
    assert [row[1] for row in names["others"].fetchall()] == [0, 3]
    ((_, commits, added, removed),) = names["daily"].fetchall()
    assert (commits, added > 0, removed > 0) == (4, True, True)
