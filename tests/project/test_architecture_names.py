"""The classes and files that the architecture pages name exist, and files and folders have a limited size."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("lakehouse_lib", "plugins", "spark_jobs", "demo", "dags", "benchmarks", "tests")
PAGES = sorted((ROOT / "docs").glob("architecture*.md"))
TEXT = "\n".join(page.read_text() for page in PAGES)
FILES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def test_the_named_classes_are_defined_or_imported():
    names = set(
        re.findall(r"`(?:\w+\.)*([A-Z][a-z]+(?:[A-Z]\w*)?)\b[^`]*`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
    )
    assert len(names) > 10
    code = "\n".join(path.read_text() for path in FILES)
    lines = "\n".join(re.findall(r"^\s*(?:class|from|import) .*|^    \w+,$", code, re.MULTILINE))
    assert {name for name in names if not re.search(rf"\b{name}\b", lines)} == set()


def test_the_named_files_exist():
    names = set(re.findall(r"`([\w/]+\.py)`", TEXT))
    assert len(names) > 50
    paths = [f"/{path.relative_to(ROOT)}" for path in FILES]
    assert {name for name in names if not any(path.endswith(f"/{name}") for path in paths)} == set()


def test_no_file_has_more_than_four_hundred_lines():
    assert len(FILES) > 1000
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES}
    assert {path: count for path, count in lines.items() if count > 400} == {}


def test_no_folder_has_more_than_fifteen_modules():
    folders = {
        path.parent for folder in ("lakehouse_lib", "plugins", "spark_jobs") for path in (ROOT / folder).rglob("*.py")
    }
    assert len(folders) > 20
    modules = {folder: [path for path in folder.glob("*.py") if path.name != "__init__.py"] for folder in folders}
    assert {str(folder.relative_to(ROOT)): len(files) for folder, files in modules.items() if len(files) > 15} == {}


def test_no_test_file_imports_another():
    pattern = re.compile(r"^\s*from tests\.\S*?(test_\w+) import", re.MULTILINE)
    tests = {path.stem for path in FILES if path.stem.startswith("test_")}
    assert len(tests) > 300
    imports = {str(path.relative_to(ROOT)): tests & set(pattern.findall(path.read_text())) for path in FILES}
    assert {path: modules for path, modules in imports.items() if modules} == {}
