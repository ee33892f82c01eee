"""The installed wheel, without the checkout."""

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *build, "--wheel-dir", folder, ROOT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_contains_the_three_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    folders = {"lakehouse_lib": ROOT, "spark_jobs": ROOT, "lakehouse_airflow": ROOT / "plugins"}
    assert {name.split("/")[0] for name in held} == set(folders)
    expected = {
        file.relative_to(parent).as_posix()
        for package, parent in folders.items()
        for file in (parent / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert held == expected
    assert "lakehouse_lib/py.typed" in held


def test_airflow_and_the_shell_find_their_entry_points(wheel: zipfile.ZipFile) -> None:
    info = next(name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name)
    points = configparser.ConfigParser()
    points.read_string(wheel.read(f"{info}/entry_points.txt").decode())
    assert dict(points["airflow.plugins"]) == {"lakehouse": "lakehouse_airflow.plugin:LakehousePlugin"}
    assert dict(points["apache_airflow_provider"]) == {"provider_info": "lakehouse_airflow.provider:get_provider_info"}
    assert dict(points["console_scripts"]) == {"lakehouse": "lakehouse_lib.cli.main:main"}
    for group in ("airflow.plugins", "apache_airflow_provider", "console_scripts"):
        for target in points[group].values():
            module, name = target.split(":")
            assert name in wheel.read(f"{module.replace('.', '/')}.py").decode()
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
