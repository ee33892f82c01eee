"""A killed worker leaves no key on a disk and no process, and a rerun finishes the table.

These are the latest moments of a job; `make test-worker-kills` has all ten.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.killed_workers import FILES, MOMENTS, Scene
from tests.s3_server import S3Server, serving

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("airflow_db")]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving("lake") as server:
        yield server


def test_a_killed_worker_leaves_no_secret_on_disk(tmp_path: Path, s3: S3Server) -> None:
    scene = Scene(tmp_path, s3)
    for moment in (
        moment for moment in MOMENTS if moment.name in ("a Python worker reads", "the commit is on its way")
    ):
        scene.kill_at(moment)
        assert scene.files_with_secrets() == [], moment
        assert scene.deletes() == 0, moment
    scene.run()
    assert scene.names() == [f"kept {number}" for number in range(FILES)]
    assert scene.deletes() == 1
    assert scene.files_with_secrets() == []
