"""The examples of docs/command-line.md and README.md print what the pages show, except for numbers and names."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_lib.cli.commands import commands
from lakehouse_lib.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/command-line.md").read_text()
README = (ROOT / "README.md").read_text()
EXAMPLE = re.compile(r"^```console\n\$ lakehouse (.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def masked(text: str) -> list[str]:
    """The lines of an output without numbers, times, generated names, and the widths of columns."""
    text = re.sub(r"\d{4}-\d\d-\d\d.\d\d:\d\d:\d\d(Z|\+00:00)", "TIME", text)
    text = re.sub(r"part-\S+|[0-9a-f]{8}-[0-9a-f-]{27}", "NAME", text)
    text = re.sub(r"\d[\d,.]*", "N", text)
    return [re.sub(r" +", " ", re.sub("─+", "─", line)) for line in text.splitlines()]


def test_the_examples_print_what_the_pages_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert code is not None
    subprocess.run([sys.executable, "-c", code[1]], cwd=tmp_path, timeout=120, check=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    queries = re.search(r"^\$ cat queries.sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert queries is not None
    (tmp_path / "queries.sql").write_text(queries[1])
    examples = EXAMPLE.findall(README) + EXAMPLE.findall(PAGE)
    assert len(examples) > 12
    for words, shown in examples:
        main(words.replace("/data/", "lake/").split())
        printed = capsys.readouterr()
        text = (printed.out + printed.err).replace(str(tmp_path), "/data")
        assert masked(text) == masked(shown.replace("/data/orders", "lake/orders")), words


def test_the_page_lists_every_command() -> None:
    names = re.findall(r"^\| `([a-z -]+)` \|", PAGE, re.MULTILINE)
    assert {name.partition(" --")[0] for name in names} == {command.name for command in commands()}
