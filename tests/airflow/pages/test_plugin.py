"""An error in the plugin never stops Airflow's API server."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("airflow_db")]

_SERVER = """
import json, sys
from importlib.abc import MetaPathFinder

class Poison(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            raise eval(sys.argv[2])

sys.meta_path.insert(0, Poison())
from airflow.api_fastapi.app import create_app
from airflow import plugins_manager
app = create_app(apps="all")
paths = [route.path for route in app.routes]
answer = {
    "errors": plugins_manager.get_import_errors(),
    "pages": "/lakehouse" in paths,
    "api": any(path.startswith("/api/v2/") for path in paths),
}
print(json.dumps(answer))
"""


def started(module: str, error: str) -> dict[str, object]:
    """Start Airflow's API server in a process in which importing ``module`` raises ``error``."""
    done = subprocess.run(
        [sys.executable, "-c", _SERVER, module, error], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("error", ["ImportError('no such name')", "RuntimeError('not today')"])
def test_pages_that_cannot_be_imported_are_an_import_error_of_the_plugin(error: str) -> None:
    server = started("lakehouse_airflow.pages", error)
    assert (server["pages"], server["api"]) == (False, True)
    (text,) = server["errors"].values()  # type: ignore[attr-defined]
    assert error.split("'")[1] in text


def test_the_pages_are_registered_without_import_errors() -> None:
    assert started("nothing.of.that.name", "ImportError()") == {"errors": {}, "pages": True, "api": True}
