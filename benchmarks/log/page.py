"""docs/benchmarks.md: prose by hand, and between marks what was measured."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.log import plot, report

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PLOT = "benchmarks-growth.svg"


def taken(kept: Mapping[str, Any]) -> str:
    """When and where a result comes from."""
    before, after = kept["load"]
    return (
        f"median of {kept['rounds']}, {kept['machine']}, load {before} before and {after} after, taken {kept['taken']}"
    )


def write(results: Path, docs: Path = DOCS) -> None:
    """Put every kept result between its marks, and draw the growth."""
    page = docs / "benchmarks.md"
    text = page.read_text()
    for path in sorted(results.glob("*.json")):
        kept = json.loads(path.read_text())
        text = fill(text, path.stem, f"{report.show(path.stem, kept['result'])}\n\nM{taken(kept)[1:]}.")
        if path.stem == "growth":
            (docs / PLOT).write_text(plot.growth(kept["result"]))
    page.write_text(text)


def fill(text: str, section: str, content: str) -> str:
    """The page with ``content`` between the marks of ``section``; ValueError where there are none."""
    marks = re.compile(rf"(<!-- {section} -->\n).*?(<!-- /{section} -->)", re.DOTALL)
    if not marks.search(text):
        raise ValueError(f"the page has no marks <!-- {section} -->")
    return marks.sub(lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text)
