"""``make test-worker-kills``: processes of a job are killed, and the next try finishes the work, which is done once."""

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.airflow.killed_workers import FILES, MOMENTS, Moment, Scene, Victim
from tests.s3_server import S3Server, serving

pytestmark = pytest.mark.usefixtures("airflow_db")

#: At these moments, there may be no handle yet: the process of the job may still wait for its task.
_WITHOUT_HANDLE = ("the task begins", "spark-submit is about to start", "the driver starts")
SEED, ROUNDS = int(os.environ.get("SEED", random.randrange(2**32))), int(os.environ.get("ROUNDS", 5))


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with serving("lake") as server:
        yield server


def names(moment: Moment) -> str:
    return f"{moment.name}, {moment.victim}"


def check_done_once(scene: Scene) -> None:
    assert scene.names() == [f"kept {number}" for number in range(FILES)]
    assert scene.deletes() == 1
    assert scene.files_with_secrets() == []
    # The request to stop stays, because a dead job of another machine might come back. A job that is asked to stop
    # exits at once, so its pulse stays, too.
    objects = scene.objects_of_jobs()
    assert [path for path in objects if f"{path.rpartition('.')[0]}.stop" not in objects] == []


@pytest.mark.parametrize("moment", MOMENTS, ids=names)
def test_a_worker_that_is_killed_at_any_moment_leaves_no_secret_on_disk(
    moment: Moment, tmp_path: Path, s3: S3Server
) -> None:
    scene = Scene(tmp_path, s3)
    scene.kill_at(moment)
    assert scene.files_with_secrets() == []
    assert scene.deletes() == int(moment.answered)
    scene.run()
    assert scene.names() == [f"kept {number}" for number in range(FILES)]
    assert scene.deletes() == 1
    assert scene.files_with_secrets() == []


@pytest.mark.parametrize("moment", MOMENTS, ids=names)
def test_the_next_try_attaches_to_the_job_of_a_worker_that_is_killed(
    moment: Moment, tmp_path: Path, s3: S3Server
) -> None:
    scene = Scene(tmp_path, s3, durable=True)
    scene.kill_at(moment)
    scene.run()
    check_done_once(scene)
    assert scene.tries_of_deletes() == [1] or moment.name in _WITHOUT_HANDLE


@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_work_is_done_once_with_kills_at_random_moments(number: int, tmp_path: Path, s3: S3Server) -> None:
    """Each round kills one process three times: of the task, of its supervisor, of both, the JVM or the driver."""
    chance = random.Random(f"{SEED}, {number}")
    scene = Scene(tmp_path, s3, durable=True)
    victims: list[Victim] = ["task", "supervisor", "both", "JVM", "driver"]
    kills = [(round(chance.uniform(0, 25), 2), chance.choice(victims)) for _ in range(3)]
    print(f"SEED={SEED}, round {number}: {kills}", file=sys.__stderr__, flush=True)
    try:
        if all(scene.kill_after(*kill) for kill in kills):
            scene.run()
        check_done_once(scene)
    finally:
        scene.end_jobs()
