"""Names are nouns or verbs, because only the author knows what a pronoun or a bare participle stands for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("lakehouse_lib", "spark_jobs", "plugins", "dags", "demo", "benchmarks", "tests")
PRONOUNS = frozenset(["it", "mine", "one", "ones", "ours", "that", "them", "theirs", "there", "this", "those"])
PARTICIPLES = frozenset(["asked", "found", "given", "heeded", "kept", "known", "meant", "seen", "told", "wanted"])
#: Names that tests, benchmarks and the demo may use, but not the code that is installed.
UNCLEAR_PRONOUNS = frozenset(["anything", "everything", "its", "some", "such", "who", "whom"])
UNCLEAR_PARTICIPLES = frozenset(["asking", "dealt", "doubled", "held", "made", "noted", "spared", "torn", "tried"])
UNCLEAR = UNCLEAR_PRONOUNS | UNCLEAR_PARTICIPLES
INSTALLED = ("lakehouse_lib", "spark_jobs", "plugins", "dags")
#: Keys of results, which old records contain.
PUBLISHED = {"lakehouse_lib/privacy/purge.py": {"kept"}}


def test_no_name_is_a_pronoun_or_a_bare_participle() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300
    wrong = [
        f"{path}:{line} {name}"
        for path, file in ((str(file.relative_to(ROOT)), file) for file in files)
        for name, line in names(file.read_text(), UNCLEAR if path.startswith(INSTALLED) else frozenset())
        if name not in PUBLISHED.get(path, set())
    ]
    assert wrong == []


def test_each_kind_of_name_is_checked() -> None:
    code = "def told(one, *, found): kept = [seen for seen in one]; self.given = 1\nclass Wanted: asked: int\n"
    assert {name for name, _ in names(code)} == {"told", "one", "found", "kept", "seen", "given", "Wanted", "asked"}
    assert {name for name, _ in names("who = its = 1", UNCLEAR)} == {"who", "its"}
    assert not list(names("def find(row, *, matches): rows_found = [row for row in matches]"))


def names(code: str, unclear: frozenset[str] = frozenset()) -> Iterator[tuple[str, int]]:
    """The names in a module that are pronouns, bare participles or ``unclear``, with their lines."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case _:
                continue
        if name.strip("_").lower() in PRONOUNS | PARTICIPLES | unclear:
            yield name, node.lineno
