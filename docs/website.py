"""Build the docs as a website: `make site`. It needs the packages of docs/website-requirements.txt and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ROOT / ".peers" / "site-pages"
SITE = ROOT / "dist" / "site"
#: Pages of the repository's folder, by their name in the site.
OF_THE_REPOSITORY = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
#: Files that the site shows as they are.
FILES = ("*.md", "*.png", "*.svg", "lakehouse.schema.json")
#: In HTML and CSS, what a browser fetches without a click.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b(?![^>]*\brel=["']?canonical)[^>]*\bhref=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|url\(["']?(?:https?:)?//[^)]+|@import\s+["'](?:https?:)?//[^"']+""",
    re.IGNORECASE,
)


def page_of_the_site(text: str) -> str:
    """A page of the repository as Python-Markdown needs it: links relative to the site, list items indented by four."""
    text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"\]\(README\.md", "](index.md", text)
    text = re.sub(r"\[([^\]]*)\]\(LICENSE\)", r"\1", text)
    return "\n".join(_indented(text.split("\n")))


def _indented(lines: list[str]) -> Iterator[str]:
    """Lines whose content of list items is indented by four columns; GitHub wants as many as the marker is wide."""
    width = 0
    fenced = False
    for line in lines:
        marker = None if fenced or line.startswith(" ") else re.match(r"(?:-|\d+\.) ", line)
        if marker is not None:
            width = len(marker[0])
        elif line and not line.startswith(" " * width):
            width = 0
        if line.lstrip().startswith("```"):
            fenced = not fenced
        nested = marker is None and width and line.startswith(" " * width)
        yield " " * (4 - width) + line if nested and width < 4 else line


def lay_out() -> None:
    """Write the pages that mkdocs reads."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for pattern in FILES:
        for file in sorted((ROOT / "docs").glob(pattern)):
            if file.suffix == ".md":
                (PAGES / file.name).write_text(page_of_the_site(file.read_text()))
            else:
                shutil.copy(file, PAGES)
    for name, source in OF_THE_REPOSITORY.items():
        (PAGES / name).write_text(page_of_the_site((ROOT / source).read_text()))


def fetched_by_browsers(site: Path) -> list[str]:
    """What the pages and styles load from other servers."""
    return [
        f"{file.relative_to(site)}: {match[0]}"
        for file in sorted((*site.rglob("*.html"), *site.rglob("*.css")))
        for match in FETCHED.finditer(file.read_text())
    ]


def main() -> int:
    """Build the site, with every link and anchor checked."""
    lay_out()
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--config-file", str(ROOT / "mkdocs.yml")]
    # Material's advertisement of its successor.
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    if subprocess.run(build, cwd=ROOT, env=quiet, check=False).returncode != 0:
        return 1
    fetched = fetched_by_browsers(SITE)
    for place in fetched:
        sys.stderr.write(f"the site would load from another server: {place}\n")
    if not fetched:
        sys.stdout.write(f"The site is in {SITE.relative_to(ROOT)}; open its index.html.\n")
    return 1 if fetched else 0


if __name__ == "__main__":
    sys.exit(main())
