"""The lock has exact versions and no address of a package index."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PINS = {
    canonicalize_name(pin["name"]): pin["version"]
    for pin in re.finditer(r"^(?P<name>[A-Za-z0-9._-]+)(\[.*\])?==(?P<version>[^ ]+)", LOCK, re.MULTILINE)
}


def test_the_lock_carries_no_address() -> None:
    assert not re.findall(r"://|--(?:extra-)?index-url|--find-links|--trusted-host", LOCK)


def test_every_line_is_an_exact_pin_with_hashes() -> None:
    code = [line for line in LOCK.splitlines() if line and not line.lstrip().startswith("#")]
    names = [line for line in code if not line.startswith(" ")]
    assert len(names) == len(re.findall(r"^\S+==\S+.*\\$", LOCK, re.MULTILINE)) > 100
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in code if line.startswith(" "))


def test_pyspark_is_installed_once() -> None:
    """pyspark-client has the same files as pyspark; the package that is installed last would win."""
    assert "pyspark" in PINS
    assert "pyspark-client" not in PINS


def test_every_requirement_of_the_project_is_pinned_to_a_version_it_allows() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    extras = project["optional-dependencies"]
    assert {"spark", "airflow", "quality", "dev"} <= set(extras)
    requirements = [
        *project["dependencies"],
        *(line for lines in extras.values() for line in lines),
        *settings["build-system"]["requires"],
    ]
    unmet = [
        line
        for line in requirements
        if PINS.get(canonicalize_name(Requirement(line).name)) is None
        or not Requirement(line).specifier.contains(PINS[canonicalize_name(Requirement(line).name)])
    ]
    assert unmet == []
