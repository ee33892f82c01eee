"""The demo's folder: a fresh start removes only the demo's own files, and one command at a time uses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from demo.errors import DemoError
from demo.home import Home


def test_clear_removes_only_files_of_the_demo(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    for folder in (home.raw, home.landing / "orders", home.tables / "orders", home.ledger, home.records, home.airflow):
        folder.mkdir(parents=True)
        (folder / "file").write_text("ours")
    home.faults.write_text("{}")
    (home.root / "notes.txt").write_text("somebody's")

    home.clear()

    assert sorted(path.name for path in home.root.iterdir()) == ["notes.txt"]
    home.clear()


def test_clear_never_follows_a_link_out_of_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("somebody's")
    home.root.mkdir()
    home.tables.symlink_to(elsewhere)

    home.clear()

    assert (elsewhere / "file").exists()
    assert not home.tables.is_symlink()


def test_a_second_demo_is_refused_in_one_line(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.locked(), pytest.raises(DemoError) as refused, home.locked():
        pass
    assert "Another demo is running" in str(refused.value)
    assert "\n" not in str(refused.value)
    with home.locked():
        pass


def test_a_killed_demo_leaves_no_lock(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from demo.home import Home\n"
        "with Home(Path(sys.argv[1])).locked():\n    print('locked', flush=True); time.sleep(300)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"locked\n"
    with pytest.raises(DemoError), Home(tmp_path).locked():
        pass
    holder.kill()
    holder.wait(10)
    holder.stdout.close()

    with Home(tmp_path).locked():
        pass
