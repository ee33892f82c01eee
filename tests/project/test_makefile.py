"""The Makefile is the first page for new users: it lists its targets, and prints in one line what the machine lacks."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(arguments: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # A make inside `make test` would inherit the outer flags.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "JAVA_HOME"))}
    return subprocess.run(
        arguments, cwd=folder, env=clean | environment, capture_output=True, text=True, timeout=60, check=False
    )


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """The files of a clone before the first `make`, in a folder with a space in its name."""
    clone = tmp_path / "a clone"
    (clone / ".ci").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "requirements.lock", ".ci/prerequisites"):
        shutil.copy(ROOT / name, clone / name)
    return clone


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH with make and a shell, without Python and Java."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("make", "sh", "awk", "echo"):
        program = shutil.which(name)
        assert program is not None
        (folder / name).symlink_to(program)
    return folder


def test_help_is_the_default_and_lists_every_target_with_a_text(fresh: Path) -> None:
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    done = run(["make"], fresh)
    assert done.returncode == 0, done.stderr
    listed = {match[1]: match[2] for match in re.finditer(r"^  make (\S+) +(\S.*)$", done.stdout, re.MULTILINE)}
    assert set(listed) == set(phony[1].split())
    assert {"demo", "test", "up", "down", "lint", "clean", "bench"} <= set(listed)
    assert len(done.stdout.splitlines()) == len(listed)


@pytest.mark.parametrize("target", ["demo", "test", "up", "lint", "bench"])
def test_missing_python_and_java_are_named_and_nothing_is_changed(fresh: Path, programs: Path, target: str) -> None:
    before = sorted(fresh.rglob("*"))
    done = run(["make", target], fresh, PATH=str(programs))
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode != 0
    assert len(lines) == 2
    assert lines[0].startswith("lakehouse needs Python 3.11 to 3.14")
    assert "apt install python3" in lines[0]
    assert lines[1].startswith("lakehouse needs Java 17 or newer")
    assert "apt install openjdk" in lines[1]
    assert done.stdout == ""
    assert sorted(fresh.rglob("*")) == before


@pytest.mark.parametrize(
    ("python", "java", "message"),
    [
        ((3, 10), "17.0.15", "lakehouse needs Python 3.11 to 3.14"),
        ((3, 15), "17.0.15", "lakehouse needs Python 3.11 to 3.14"),
        ((3, 11), "1.8.0_432", "lakehouse needs Java 17 or newer, and java is version 1."),
        ((3, 11), "11.0.27", "lakehouse needs Java 17 or newer, and java is version 11."),
        ((3, 11), "16", "lakehouse needs Java 17 or newer, and java is version 16."),
        ((3, 11), "17.0.15", None),
        ((3, 14), "25", None),
    ],
)
def test_versions_are_compared(
    fresh: Path, programs: Path, python: tuple[int, int], java: str, message: str | None
) -> None:
    # The real interpreter runs the check with another version number.
    script(
        programs / "python3",
        f"""[ "$1" = -c ] && exec "{sys.executable}" -c "import sys; sys.version_info = {(*python, 0)}; $2" """,
    )
    script(programs / "java", f"""echo 'openjdk version "{java}" 2025-04-15' >&2""")
    done = run(["make", "prerequisites"], fresh, PATH=str(programs))
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    if message is None:
        assert (done.returncode, lines) == (0, [])
    else:
        assert done.returncode != 0
        assert len(lines) == 1
        assert lines[0].startswith(message)


def test_java_home_goes_before_the_path(fresh: Path, programs: Path, tmp_path: Path) -> None:
    script(programs / "python3", f"""exec "{sys.executable}" "$@" """)
    script(programs / "java", """echo 'openjdk version "11.0.1"' >&2""")
    script(tmp_path / "jdk 21" / "bin" / "java", """echo 'openjdk version "21.0.1"' >&2""")
    done = run(["make", "prerequisites"], fresh, PATH=str(programs), JAVA_HOME=str(tmp_path / "jdk 21"))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_python_without_venv_is_named(fresh: Path, programs: Path) -> None:
    script(programs / "python3", """case "$2" in *ensurepip*) exit 1 ;; esac""")
    script(programs / "java", """echo 'openjdk version "17.0.1"' >&2""")
    done = run(["make", "prerequisites"], fresh, PATH=str(programs))
    assert "lakehouse needs Python's venv module, which python3 lacks" in done.stderr
    assert "apt install python3-venv" in done.stderr


def test_the_callers_environment_does_not_reach_the_recipes(fresh: Path) -> None:
    with (fresh / "Makefile").open("a") as makefile:
        makefile.write("\nshow:\n\t@env\n")
    names = ("PYTHONPATH", "PYTHONWARNINGS", "SPARK_HOME", "PYSPARK_PYTHON", "AIRFLOW_HOME", "VIRTUAL_ENV")
    variables = dict.fromkeys(names, "theirs")
    done = run(["make", "show"], fresh, AIRFLOW__CORE__DAGS_FOLDER="theirs", PIP_INDEX_URL="kept", **variables)
    assert done.returncode == 0, done.stderr
    assert "theirs" not in done.stdout
    assert "PIP_INDEX_URL=kept" in done.stdout


def test_all_tests_run_and_one_that_fails_fails_them(fresh: Path, tmp_path: Path) -> None:
    script(tmp_path / "make", f"""echo "$2" >> "{tmp_path}/ran"; [ "$2" != fuzz ]""")
    done = run(["make", "test-all", f"MAKE={tmp_path}/make"], fresh)
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    tests = {name for name in phony[1].split() if re.match("test|simulate|fuzz|interop|differential", name)} - {
        "test-all"
    }
    installed, *ran = (tmp_path / "ran").read_text().split()
    assert installed == ".venv/.installed"
    assert [name for name in ran if name in ("test", "test-slow")] == ["test", "test-slow"]
    assert sorted(ran) == sorted(tests)
    assert done.returncode != 0
    results = {line.split()[0]: line.split()[-1] for line in done.stdout.splitlines() if " s " in line}
    assert results == dict.fromkeys(ran, "passed") | {"fuzz": "FAILED"}


@pytest.mark.parametrize(
    ("failing", "ran"), [("none", ["lint", "test"]), ("lint", ["lint"]), ("test", ["lint", "test"])]
)
def test_continuous_integration_runs_lint_then_test_and_stops_at_the_first_failure(
    tmp_path: Path, failing: str, ran: list[str]
) -> None:
    script(tmp_path / "make", f"""echo "$1" >> "{tmp_path}/ran"; [ "$1" != {failing} ]""")
    done = run([str(ROOT / ".ci/run")], tmp_path, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert (tmp_path / "ran").read_text().split() == ran
    assert (done.returncode == 0) == (failing == "none")
