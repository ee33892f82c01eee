"""Only the scratch folders of killed processes are deleted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.scratch_folders import scratch_folder

OWNER = """
import sys, time
from pathlib import Path
from lakehouse_lib.engine.scratch_folders import scratch_folder
with scratch_folder(sys.argv[1]) as folder:
    Path(folder, "pieces").write_text("rows")
    Path(folder, "elsewhere").symlink_to(sys.argv[2])
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "file").write_text("stays")
    return folder


def test_the_scratch_folder_of_a_killed_process_is_deleted(tmp_path: Path, elsewhere: Path) -> None:
    base = tmp_path / "scratch"
    base.mkdir()
    command = [sys.executable, "-c", OWNER, str(base), str(elsewhere)]
    owners = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        killed, living = (Path(owner.stdout.readline().strip()) for owner in owners if owner.stdout is not None)
        owners[0].kill()
        owners[0].wait()
        assert (killed / "pieces").exists()
        with scratch_folder(base) as own:
            assert not killed.exists()
            assert (living / "pieces").read_text() == "rows"
            assert Path(own).stat().st_mode & 0o777 == 0o700
            with scratch_folder(base) as other:
                assert Path(own).exists()
                assert own != other
        assert sorted(base.iterdir()) == [living]
        assert (elsewhere / "file").read_text() == "stays"
    finally:
        for owner in owners:
            owner.kill()
            owner.communicate()


def test_foreign_scratch_files_are_kept(tmp_path: Path, elsewhere: Path) -> None:
    (elsewhere / ".owner").touch()
    (tmp_path / "lakehouse-link").symlink_to(elsewhere)
    (tmp_path / "lakehouse-without-lock").mkdir()
    (tmp_path / "lakehouse-file").touch()
    os.mkfifo(tmp_path / "lakehouse-without-lock" / ".owner.fifo")
    linked = tmp_path / "lakehouse-linked-lock"
    linked.mkdir()
    (linked / ".owner").symlink_to(elsewhere / "file")
    before = sorted(tmp_path.iterdir())
    with scratch_folder(tmp_path):
        pass
    assert sorted(tmp_path.iterdir()) == before
    assert (elsewhere / "file").exists()


def test_an_exchange_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ArrowEngine(1).exchange(lambda _: iter(()), lambda *_: None, [1, 2], [1]).num_rows == 0
    assert list(tmp_path.iterdir()) == []
