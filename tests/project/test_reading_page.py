"""The examples of docs/reading.md run as printed, from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/reading.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    names: dict[str, Any] = {"spark": spark, "__name__": "page"}
    exec(compile("\n".join(blocks), "docs/reading.md", "exec"), names)
    assert names["DeltaTable"]("cheap").count() == 3
