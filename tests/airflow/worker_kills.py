"""``make test-worker-kills``: a worker is killed at each of ten moments of a job, and a rerun finishes the work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.killed_workers import FILES, MOMENTS, Moment, Scene
from tests.s3_server import S3Server, serving

pytestmark = pytest.mark.usefixtures("airflow_db")


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving("lake") as server:
        yield server


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: f"{moment.name}, {moment.victim}")
def test_nothing_is_left_of_a_worker_that_is_killed_when(moment: Moment, tmp_path: Path, s3: S3Server) -> None:
    scene = Scene(tmp_path, s3)
    scene.kill_at(moment)
    assert scene.files_that_tell() == []
    assert scene.deletes() == int(moment.answered)
    scene.run()
    assert scene.names() == [f"kept {number}" for number in range(FILES)]
    assert scene.deletes() == 1
    assert scene.files_that_tell() == []
