"""The Python examples of a page run as printed, from top to bottom, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "altering",
    "auto-compaction",
    "change-data-feed",
    "change-events",
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


def test_imports_work_and_the_examples_of_the_operators_make_tasks(tmp_path: Path) -> None:
    pages = "\n".join(page.read_text() for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
    imports = re.findall(r"^`?(from lakehouse_\S+ import [\w, ]+)`?$", pages, re.MULTILINE)
    assert len(imports) > 12
    text = (ROOT / "docs/operators.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    tasks = [block for block in blocks if "with DAG" not in block and "LakehouseHook()" not in block]
    dags = [block for block in blocks if "with DAG" in block]
    assert len(tasks) > 8
    assert len(dags) == 2
    code = "\n".join([*imports, *dags, 'with DAG("page"):', *(textwrap.indent(block, "    ") for block in tasks)])
    # Use a separate process, because Airflow configures logging and warnings when it is imported.
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"AIRFLOW_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
