"""Store results, and put them into pages between marks."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.log import plot, report

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PLOT = "benchmarks-growth.svg"


def keep(results: Path, name: str, rounds: int, measure: Callable[[], Any]) -> dict[str, Any]:
    """Measure a section, and store its result with the time, the machine and its load."""
    results.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    result = measure()
    record = {
        "taken": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "rounds": rounds,
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "machine": f"{os.cpu_count()} processors, Python {platform.python_version()}, {platform.system()}",
        "result": result,
    }
    (results / f"{name}.json").write_text(json.dumps(record, indent=1))
    return record


def taken(record: Mapping[str, Any]) -> str:
    """A sentence with the time and machine of a result."""
    before, after = record["load"]
    return (
        f"median of {record['rounds']}, {record['machine']}, load {before} before and {after} after, "
        f"taken {record['taken']}"
    )


def write(results: Path, docs: Path = DOCS) -> None:
    """Put every stored result into docs/benchmarks.md, and draw the plot of the growth."""
    fill_page(docs / "benchmarks.md", results, report.show)
    growth = results / "growth.json"
    if growth.exists():
        (docs / PLOT).write_text(plot.growth(json.loads(growth.read_text())["result"]))


def fill_page(page: Path, results: Path, show: Callable[[str, Any], str]) -> None:
    """Put every stored result between its marks on a page, as Markdown from ``show``."""
    text = page.read_text()
    for path in sorted(results.glob("*.json")):
        record = json.loads(path.read_text())
        text = fill(text, path.stem, f"{show(path.stem, record['result'])}\n\nM{taken(record)[1:]}.")
    page.write_text(text)


def fill(text: str, section: str, content: str) -> str:
    """The page with ``content`` between the marks of ``section``.

    Raises:
        ValueError: the page has no such marks.
    """
    marks = re.compile(rf"(<!-- {section} -->\n).*?(<!-- /{section} -->)", re.DOTALL)
    if not marks.search(text):
        raise ValueError(f"the page has no marks <!-- {section} -->")
    return marks.sub(lambda mark: f"{mark[1]}\n{content}\n\n{mark[2]}", text)
