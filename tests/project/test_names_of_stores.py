"""Other parts of the library ask a store for its properties; none names a kind of store."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORES = ROOT / "lakehouse_lib" / "store"
# Codes of lint rules, such as S311, do not count.
KIND = re.compile(r"(?i)s3(?!\d\d)|\b(?:aws|boto)|LocalStore")


def lines_with_a_kind(*folders: Path) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        if not path.is_relative_to(STORES / "s3")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if KIND.search(line)
    ]


def test_only_the_stores_name_a_kind_of_store() -> None:
    named = lines_with_a_kind(ROOT / "lakehouse_lib", ROOT / "spark_jobs", ROOT / "dags")
    assert [line for line in named if not line.startswith("lakehouse_lib/store/")] == []


def test_the_search_finds_the_stores_own_lines() -> None:
    assert lines_with_a_kind(STORES)
