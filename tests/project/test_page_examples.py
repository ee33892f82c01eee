"""The Python examples of a page run as printed, from top to bottom, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "altering",
    "auto-compaction",
    "change-data-feed",
    "cloning",
    "computed-columns",
    "constraints",
    "converting",
    "deleting",
    "file-layout",
    "health",
    "large-tables",
    "log-upkeep",
    "maintenance",
    "merging",
    "overwriting",
    "predicates",
    "restoring",
    "transactions",
    "updating",
)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_the_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / f"docs/{page}.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    code = "\n".join(block for block in blocks if "pyspark" not in block)
    exec(compile(code, f"docs/{page}.md", "exec"), {"__name__": "page"})
