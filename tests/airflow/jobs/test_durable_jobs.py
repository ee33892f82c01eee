"""The next try of a task finds the job of a try whose worker has died. A script replaces spark-submit."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout

from lakehouse_airflow.jobs import pulse
from lakehouse_airflow.jobs import submission as submission_module
from lakehouse_airflow.jobs.job_folder import Handle, JobFolder
from lakehouse_airflow.jobs.machine import start_time, this_machine
from lakehouse_lib.errors import StoreError
from lakehouse_lib.store import LocalStore
from spark_jobs.process.job_objects import RETENTION_DAYS
from tests.airflow.jobs.durable_job import folder_of, in_thread, orphan, starts, submission, wait_for
from tests.airflow.jobs.job_scripts import PRELUDE

#: A task that runs the job, in a process that a test can kill.
TRY = """
import sys
from tests.airflow.jobs.durable_job import submission
from pathlib import Path
print(submission(Path(sys.argv[1]), durable=sys.argv[2] == "durable").run())
"""


@pytest.fixture(autouse=True)
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_connection: None) -> None:
    """The script notes its start, and ends when the file ``go`` exists."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "spark-submit"
    script.write_text(
        f"""#!{sys.executable}
{PRELUDE}
with open({str(tmp_path / "starts")!r}, "a") as starts:
    starts.write(f"{{os.getpid()}}\\n")
while not os.path.exists({str(tmp_path / "go")!r}):
    time.sleep(0.02)
try:  # as a JVM, which ignores that its output is not read
    print("the output of the job, after its task has died", flush=True)
except BrokenPipeError:
    sys.stdout = None
end({{"lakehouse": "result", "version": 5}})
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(submission_module, "_POLL_SECONDS", 0.02)


def test_the_job_of_an_earlier_try_is_not_submitted_again(tmp_path: Path) -> None:
    job = orphan(tmp_path)
    thread, outcome = in_thread(submission(tmp_path))
    time.sleep(0.1)
    assert outcome == []
    (tmp_path / "go").touch()
    job.wait()
    thread.join(60)
    assert outcome == [{"job": "compact", "version": 5}]
    assert starts(tmp_path) == [job.pid]
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_job_that_has_ended_between_tries_gives_its_result(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    job = orphan(tmp_path)
    job.wait()
    assert submission(tmp_path).run() == {"job": "compact", "version": 5}
    assert starts(tmp_path) == [job.pid]
    assert submission(tmp_path).run()["version"] == 5  # a cleared task is not answered by the earlier outcome
    assert len(starts(tmp_path)) == 2


def test_a_cleared_task_does_not_reuse_an_outcome_that_could_not_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise StoreError("the store does not answer")

    (tmp_path / "go").touch()
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete_many", fails)
        with pytest.raises(StoreError):  # so the task has not succeeded, and its next try has the result
            submission(tmp_path).run()
    assert submission(tmp_path).run()["version"] == 5
    assert len(starts(tmp_path)) == 1
    assert submission(tmp_path).run()["version"] == 5
    assert len(starts(tmp_path)) == 2


def test_a_killed_job_is_submitted_again_and_its_handle_is_stopped(tmp_path: Path) -> None:
    job = orphan(tmp_path)
    handle = folder_of(tmp_path).handle()
    job.kill()
    job.wait()
    (tmp_path / "go").touch()
    assert submission(tmp_path).run()["version"] == 5
    assert len(starts(tmp_path)) == 2
    assert handle is not None
    assert folder_of(tmp_path).objects(handle.name).is_stopped()


def test_a_job_with_other_arguments_is_cancelled(tmp_path: Path) -> None:
    job = orphan(tmp_path, "--target-file-size=1")
    (tmp_path / "starts").unlink()
    thread, outcome = in_thread(submission(tmp_path))
    assert job.wait(60) == -9
    (tmp_path / "go").touch()
    thread.join(60)
    assert outcome == [{"job": "compact", "version": 5}]


def test_a_job_with_another_condition_is_cancelled(tmp_path: Path) -> None:
    job = orphan(tmp_path, predicate_file="id = 1", commit_metadata_file='{"try_number": 1}')
    same = {"predicate_file": "id = 1", "commit_metadata_file": '{"try_number": 2}', "storage_options_file": "{}"}
    handle = folder_of(tmp_path).handle()
    assert handle is not None
    assert submission(tmp_path, **same)._digest == handle.command
    thread, outcome = in_thread(submission(tmp_path, predicate_file="id = 2"))
    wait_for(lambda: len(starts(tmp_path)) == 2 or job.poll() is not None)
    assert job.wait(60) == -9
    (tmp_path / "go").touch()
    thread.join(60)
    assert outcome == [{"job": "compact", "version": 5}]


def test_killing_a_task_that_waits_kills_the_job(tmp_path: Path) -> None:
    job = orphan(tmp_path)
    waiting = submission(tmp_path)
    thread, outcome = in_thread(waiting)
    wait_for(lambda: waiting._earlier_job is not None)
    waiting.on_kill()
    assert job.wait(60) == -9
    thread.join(60)
    assert "its task was killed" in str(outcome[0])
    assert len(starts(tmp_path)) == 1


def test_killing_a_task_does_not_kill_the_job_of_a_later_try(tmp_path: Path) -> None:
    first, second = submission(tmp_path), submission(tmp_path)
    thread, _ = in_thread(first)
    wait_for(lambda: starts(tmp_path))
    later, later_outcome = in_thread(second)
    wait_for(first._is_adopted)
    first.on_kill()
    (tmp_path / "go").touch()
    for each in (thread, later):
        each.join(60)
    assert later_outcome == [{"job": "compact", "version": 5}]
    assert len(starts(tmp_path)) == 1
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_timeout_does_not_kill_the_job_of_a_later_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = submission(tmp_path), submission(tmp_path)

    def time_out(_: Any) -> None:
        first._open_gate(first._submit_sp.pid)
        wait_for(first._is_adopted)
        raise AirflowTaskTimeout

    monkeypatch.setattr(first, "_process_spark_submit_log", time_out)
    thread, outcome = in_thread(first)
    wait_for(lambda: starts(tmp_path))
    later, later_outcome = in_thread(second)
    thread.join(60)
    assert [type(error) for error in outcome] == [AirflowTaskTimeout]
    (tmp_path / "go").touch()
    later.join(60)
    assert later_outcome == [{"job": "compact", "version": 5}]
    assert len(starts(tmp_path)) == 1
    first._submit_sp.wait()


def test_killing_a_waiting_task_does_not_kill_the_job_of_a_later_try(tmp_path: Path) -> None:
    job = orphan(tmp_path)
    second, third = submission(tmp_path), submission(tmp_path)
    thread, outcome = in_thread(second)
    wait_for(lambda: second._earlier_job is not None)
    wait_for(lambda: folder_of(tmp_path).handle().adopter)  # type: ignore[union-attr]
    later, later_outcome = in_thread(third)
    wait_for(second._is_adopted)
    second.on_kill()
    thread.join(60)
    (tmp_path / "go").touch()
    later.join(60)
    assert "its task was killed" in str(outcome[0])
    assert later_outcome == [{"job": "compact", "version": 5}]
    assert starts(tmp_path) == [job.pid]
    job.wait()


def test_a_handle_that_an_earlier_try_deletes_at_its_end_is_put_again(tmp_path: Path) -> None:
    first = folder_of(tmp_path)
    assert first.handle() is None
    first.put_handle(Handle("a-b", "c", this_machine(), 2, 1))
    second = folder_of(tmp_path)
    assert second.handle() is not None
    first.forget("a-b")
    second.put_handle(Handle("a-c", "c", this_machine(), 3, 1))
    assert first.handle() == second.handle() == Handle("a-c", "c", this_machine(), 3, 1)


def test_a_jvm_that_hangs_after_the_end_of_its_job_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "PULSE_SECONDS", 0.02)
    job = orphan(tmp_path)
    handle = folder_of(tmp_path).handle()
    assert handle is not None
    thread, outcome = in_thread(submission(tmp_path))
    folder_of(tmp_path).objects(handle.name).put_outcome({"lakehouse": "result", "job": "compact", "version": 6})
    assert job.wait(60) == -9
    thread.join(60)
    assert outcome == [{"job": "compact", "version": 6}]


def test_a_job_without_a_pulse_is_killed_and_submitted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "PULSE_SECONDS", 0.02)
    monkeypatch.setattr(pulse, "_SECONDS_TO_BEGIN", 0.2)
    job = orphan(tmp_path)
    thread, outcome = in_thread(submission(tmp_path))
    assert job.wait(60) == -9
    (tmp_path / "go").touch()
    thread.join(60)
    assert outcome == [{"job": "compact", "version": 5}]


def elsewhere(tmp_path: Path) -> JobFolder:
    """Let the handle be that of another machine."""
    folder = folder_of(tmp_path)
    handle = folder.handle()
    assert handle is not None
    folder.put_handle(replace(handle, machine="another", process=handle.process))
    return folder


def test_a_job_of_another_machine_is_recognized_by_its_pulse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "PULSE_SECONDS", 0.02)
    job = orphan(tmp_path)
    folder = elsewhere(tmp_path)
    handle = folder.handle()
    assert handle is not None
    with folder.objects(handle.name).beating():
        thread, outcome = in_thread(submission(tmp_path))
        time.sleep(0.2)
        assert outcome == []
        (tmp_path / "go").touch()
        job.wait()
    thread.join(60)
    assert outcome == [{"job": "compact", "version": 5}]
    assert starts(tmp_path) == [job.pid]


def test_a_job_of_another_machine_without_a_pulse_is_stopped_and_submitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "PULSE_SECONDS", 0.02)
    monkeypatch.setattr(pulse, "_SECONDS_WITHOUT_PULSE", 0.2)
    job = orphan(tmp_path)
    folder = elsewhere(tmp_path)
    handle = folder.handle()
    assert handle is not None
    folder.objects(handle.name)._beat()
    thread, outcome = in_thread(submission(tmp_path))
    wait_for(lambda: len(starts(tmp_path)) == 2)
    assert folder.objects(handle.name).is_stopped()
    assert job.poll() is None  # it cannot be killed from here; it sees the object
    (tmp_path / "go").touch()
    thread.join(60)
    assert outcome == [{"job": "compact", "version": 5}]
    job.wait()


def test_a_cancelled_task_stops_the_job_of_another_machine(tmp_path: Path) -> None:
    job = orphan(tmp_path)
    folder = elsewhere(tmp_path)
    handle = folder.handle()
    assert handle is not None
    waiting = submission(tmp_path)
    thread, outcome = in_thread(waiting)
    wait_for(lambda: waiting._earlier_job is not None)
    waiting.on_kill()
    thread.join(60)
    assert folder.objects(handle.name).is_stopped()
    assert isinstance(outcome[0], AirflowException)
    job.kill()
    job.wait()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"name": 1}', b'{"process": 1}'])
def test_an_invalid_handle_is_replaced(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "go").touch()
    folder = folder_of(tmp_path)
    folder.place()[0].put(folder._handle, body)
    assert submission(tmp_path).run()["version"] == 5


@pytest.mark.parametrize("process", [-1, 0, 1, True, "7"])
def test_a_handle_with_an_invalid_process_id_is_refused(process: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Handle("a-b", "c", this_machine(), process, 1)


def test_two_tries_do_not_both_start_a_job(tmp_path: Path) -> None:
    first, other = folder_of(tmp_path), folder_of(tmp_path)
    assert first.handle() is None
    assert other.handle() is None
    first.put_handle(Handle("a-b", "c", this_machine(), 2, 1))
    with pytest.raises(AirflowException, match="another try of this task has started the job"):
        other.put_handle(Handle("a-c", "c", this_machine(), 3, 1))


def test_an_outcome_of_another_job_fails_the_task(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    job = orphan(tmp_path)
    job.wait()
    (outcome,) = (tmp_path / "jobs").glob("*.outcome.json")
    outcome.write_text(json.dumps({"lakehouse": "result", "job": "erase"}))
    with pytest.raises(AirflowException, match="is not the outcome of a job compact"):
        submission(tmp_path).run()


def test_objects_of_forgotten_tasks_are_deleted_after_the_retention(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    assert folder.handle() is None
    folder.put_handle(Handle("a-b", "c", this_machine(), 2, 1))
    (tmp_path / "jobs" / "notes.json").write_text("{}")
    folder.delete_old()
    assert len(list((tmp_path / "jobs").glob("*.handle.json"))) == 1
    old = time.time() - (RETENTION_DAYS + 1) * 86_400
    for file in (tmp_path / "jobs").iterdir():
        os.utime(file, (old, old))
    folder.delete_old()
    assert [file.name for file in (tmp_path / "jobs").iterdir()] == ["notes.json"]


@pytest.mark.slow
@pytest.mark.parametrize("durable", [True, False])
def test_a_job_outlives_its_killed_task_if_it_is_durable(tmp_path: Path, durable: bool) -> None:
    command = [sys.executable, "-c", TRY, str(tmp_path), "durable" if durable else "tied"]
    task = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: starts(tmp_path))
    (process,) = starts(tmp_path)
    task.kill()
    task.wait()
    if not durable:
        psutil.wait_procs([psutil.Process(process)] if psutil.pid_exists(process) else [], timeout=60)
        assert start_time(process) is None
        return
    thread, outcome = in_thread(submission(tmp_path))
    time.sleep(1)
    assert start_time(process) is not None
    (tmp_path / "go").touch()
    thread.join(60)
    assert outcome == [{"job": "compact", "version": 5}]
    assert starts(tmp_path) == [process]
