"""The repository contains nothing that belongs to one machine."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Joined here, so that this file does not contain the texts that it searches for.
MACHINE = re.compile(
    rb"/(?:" + rb"|".join([rb"work", rb"root", rb"home/[a-z]+", rb"Users/[a-z]+"]) + rb")/[\w.]", re.ASCII
)
REGISTRY = re.compile(
    rb"|".join(
        [
            rb"pypi\." + rb"org",
            rb"pythonhosted\." + rb"org",
            rb"artifact" + rb"ory",
            rb"index[-_]url\s*=",
            rb"repo\d?\.maven",
        ]
    )
)


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name.decode() for name in listed.split(b"\0") if name]


def test_no_file_names_a_machine_path_or_a_package_registry() -> None:
    violations = []
    for file in tracked():
        # Data files of other projects stay unchanged.
        if not file.is_file() or file.is_relative_to(ROOT / "tests/data"):
            continue
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            if MACHINE.search(line) or REGISTRY.search(line):
                violations.append(f"{file.relative_to(ROOT)}:{number}: {line[:100]!r}")
    assert violations == []


def test_files_that_a_run_leaves_are_ignored_by_git() -> None:
    made = [
        ".venv/x",
        ".demo/x",
        ".env",
        "secrets/x",
        "spark-warehouse/x",
        "metastore_db/x",
        "dist/x",
        "lakehouse_lib/__pycache__/x",
    ]
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *made], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert ignored == made
