"""docs/quality.md lists the expectations that are translated, and its example prints what the page shows."""

import re
import subprocess
import sys
from pathlib import Path

from lakehouse_lib.ingestion.gate.row_expectations import EXPECTATIONS as ROW_EXPECTATIONS
from lakehouse_lib.ingestion.gate.table_expectations import EXPECTATIONS as TABLE_EXPECTATIONS

PAGE = (Path(__file__).parents[2] / "docs/quality.md").read_text()


def test_the_page_lists_the_expectations_that_are_translated() -> None:
    rows, tables = PAGE.split("expectations are about a batch as a whole")
    for text, expectations in ((rows, ROW_EXPECTATIONS), (tables, TABLE_EXPECTATIONS)):
        table = "\n".join(line for line in text.splitlines() if line.startswith("| `"))
        assert set(re.findall(r"`(expect_\w+)`", table)) == set(expectations)


def test_the_example_prints_what_the_page_shows() -> None:
    code = re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert code is not None
    done = subprocess.run([sys.executable, "-c", code[1]], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == re.findall(r"# (\[.*\])$", code[1], re.MULTILINE)
