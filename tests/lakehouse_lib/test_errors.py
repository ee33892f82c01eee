"""The texts of errors are a few lines long, whatever they quote."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_lib import DeltaTable, errors
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, StoreError
from lakehouse_lib.log.replay.live_files import DuplicatePathError
from lakehouse_lib.store import LocalStore
from tests.log_builder import METADATA, PROTOCOL, add, put

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("lakehouse_lib", "spark_jobs", "plugins") for path in (ROOT / folder).rglob("*.py")]


def test_a_long_message_keeps_its_beginning_and_end() -> None:
    error = StoreError(f"the file {'x' * 100_000} is missing", table="/t", version=3, hint="Restore it")
    assert len(str(error)) < 5_000
    assert str(error).startswith("[DELTA_STORE_ERROR] the file xxx")
    assert str(error).endswith("is missing (table /t, version 3). Restore it")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_long_name_is_shortened_in_errors(tmp_path: Path) -> None:
    put(LocalStore(str(tmp_path)), 0, {"protocol": PROTOCOL}, {"metaData": METADATA}, add("x" * 10_000))
    with pytest.raises(DeltaError) as refused:
        DeltaTable(tmp_path).to_pyarrow_table()
    assert len(str(refused.value)) < 5_000


def test_a_creation_time_beyond_the_calendar_does_not_fail_detail(tmp_path: Path) -> None:
    metadata = METADATA | {"createdTime": 10**16}
    put(LocalStore(str(tmp_path)), 0, {"protocol": PROTOCOL}, {"metaData": metadata})
    assert DeltaTable(tmp_path).detail()["createdAt"] is None
    assert DeltaTable(tmp_path).metadata().created_time == 10**16


def test_the_page_of_errors_lists_the_codes_of_the_code() -> None:
    codes = {code for path in SOURCES for code in re.findall(r'\bcode(?:: str)? ?= ?"([A-Z]+_\w+)"', path.read_text())}
    listed = re.findall(r"^\| `([A-Z]+_\w+)` \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert len(codes) > 50
    assert sorted(listed) == sorted(codes)


def test_every_error_of_the_plugin_has_a_code() -> None:
    """Only modules that translate errors of others raise Airflow's own exceptions, whose texts have no code."""
    raises = re.compile(r"raise Airflow(?:Fail)?Exception\(")
    files = {path.name for path in (ROOT / "plugins").rglob("*.py") if raises.search(path.read_text())}
    assert files <= {"aws.py", "base.py", "erase.py", "polling.py", "registry_check.py"}


def test_no_hint_ends_with_a_period() -> None:
    hints = [hint for path in SOURCES for hint in hints_of(ast.parse(path.read_text()))]
    assert len(hints) > 200
    assert [hint for hint in hints if hint.endswith(".")] == []


def hints_of(tree: ast.AST) -> Iterator[str]:
    """The last words of each text that is an argument ``hint``, or that a name ending with ``hint`` gets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            yield from last_words(node.value)
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if any(name.lower().endswith("hint") for name in names):
                yield from last_words(node.value)


def last_words(text: ast.expr) -> Iterator[str]:
    if isinstance(text, ast.IfExp):
        yield from last_words(text.body)
        yield from last_words(text.orelse)
    elif isinstance(text, ast.JoinedStr):
        yield from last_words(text.values[-1])
    elif isinstance(text, ast.Constant) and isinstance(text.value, str):
        yield text.value


def test_every_class_has_a_code_of_its_own() -> None:
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DeltaError)]
    assert len({kind.code for kind in classes}) == len(classes)


def test_a_code_survives_another_process() -> None:
    error = InvalidArgumentError("mode is 'x'", hint="Use append", code="DELTA_INVALID_WRITE_MODE")
    assert pickle.loads(pickle.dumps(error)).code == "DELTA_INVALID_WRITE_MODE"
    assert str(error) == "[DELTA_INVALID_WRITE_MODE] mode is 'x'. Use append"
    twice = DuplicatePathError("a path is live twice")
    twice.path = "f"
    assert pickle.loads(pickle.dumps(twice)).path == "f"
    assert InvalidArgumentError("x").code == "DELTA_INVALID_ARGUMENT"
