"""An environment with a release of Airflow as pip resolves it, and the wheel of this project."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/getting-started.md").read_text()
OWN_PAGE = (ROOT / "docs/your-own-airflow.md").read_text()
#: The folder of the wheel in the commands of the docs.
WHEEL_FOLDER = "dist/"


def documented_commands(section: str) -> list[list[str]]:
    """The ``pip install`` commands of a section of docs/getting-started.md, without ``pip install``."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [shlex.split(command) for command in re.findall(r"^pip install (.*)$", text, re.MULTILINE)]


def page_files(page: str) -> dict[str, str]:
    """The code blocks of a page that begin with a comment with the file's name, by this name."""
    blocks = re.findall(r"^```(?:yaml|python)\n# (\S+\.\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return dict(blocks)


class Environment:
    """A virtual environment in ``folder``, with its own Airflow home.

    Args:
        wheels: the folder that replaces the docs' ``dist/``.
        release: the Airflow release, such as 3.3.
    """

    def __init__(self, folder: Path, wheels: Path, release: str) -> None:
        self.release = release
        self.bin = folder / "venv" / "bin"
        self.home = folder / "home"
        self.dags = self.home / "dags"
        self.wheels = wheels
        self.dags.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=120)

    def run(
        self, *command: str, check: bool = True, timeout: int = 300, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment; if it fails, raise an AssertionError with its output."""
        names = ("HOME", "LANG", "JAVA_HOME")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        environment |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "XDG_"))}
        environment |= {
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[1]"}),
            **settings,
        }
        done = subprocess.run(
            [self.bin / command[0], *command[1:]],
            env=environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert not check or done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
        return done

    def pip_install(self, *arguments: str) -> None:
        """``pip install``, with the docs' path of the wheel replaced by its real one."""
        words = [
            f"{self.wheels}/{word.removeprefix(WHEEL_FOLDER)}" if word.startswith(WHEEL_FOLDER) else word
            for word in arguments
        ]
        self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words, timeout=1200)

    def installed(self) -> dict[str, str]:
        """The version of each distribution."""
        listed = self.run("python", "-m", "pip", "list", "--format", "json", "--disable-pip-version-check")
        return {package["name"]: package["version"] for package in json.loads(listed.stdout)}

    def python(self, code: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Python code."""
        return self.run("python", "-c", textwrap.dedent(code), check=check)

    def test_dag(self, dag_id: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a DAG once to its end, with ``airflow dags test`` and these environment variables."""
        return self.run("airflow", "dags", "test", dag_id, check=False, **settings)
