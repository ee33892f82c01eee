"""The website has every page of the docs, in the form that mkdocs needs, and browsers load it from one server."""

import re
from pathlib import Path

from docs import website

ROOT = Path(__file__).parents[2]
MKDOCS = (ROOT / "mkdocs.yml").read_text()


def test_the_navigation_has_every_page_once() -> None:
    listed = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", MKDOCS.partition("\nnav:\n")[2], re.MULTILINE)
    pages = [page.name for page in (ROOT / "docs").glob("*.md")]
    assert sorted(listed) == sorted([*pages, *website.OF_THE_REPOSITORY])


def test_no_font_is_fetched() -> None:
    assert "\n  font: false\n" in MKDOCS


def test_links_lead_to_pages_of_the_site() -> None:
    text = "[a](docs/merging.md#b) [c](README.md) [d](https://example.com/docs/) [the license](LICENSE)"
    assert website.page_of_the_site(text) == (
        "[a](merging.md#b) [c](index.md) [d](https://example.com/docs/) the license"
    )


def test_contents_of_list_items_are_indented_by_four_columns() -> None:
    lines = ["- a", "  more", "  ```", "  - code", "  ```", "1. b", "", "   c", "   - d", "text", "   as it is"]
    expected = [
        "- a",
        "    more",
        "    ```",
        "    - code",
        "    ```",
        "1. b",
        "",
        "    c",
        "    - d",
        "text",
        "   as it is",
    ]
    assert website.page_of_the_site("\n".join(lines)).split("\n") == expected
    fenced = "```\n- a\n  b\n```"
    assert website.page_of_the_site(fenced) == fenced


def test_links_that_browsers_fetch_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<a href="https://example.com">a link</a><link rel="canonical" href="https://example.com/">'
        '<script src="https://cdn.example.com/x.js"></script><link rel=stylesheet href="//fonts.example.com/x">'
        '<img src="picture.png"><link href="style.css" rel="stylesheet">'
    )
    (tmp_path / "style.css").write_text("a { background: url(https://example.com/x.png) } b { background: url(y.png) }")
    fetched = website.fetched_by_browsers(tmp_path)
    assert [re.sub(r".*//", "", place) for place in fetched] == [
        "cdn.example.com/x.js",
        "fonts.example.com/x",
        "example.com/x.png",
    ]
