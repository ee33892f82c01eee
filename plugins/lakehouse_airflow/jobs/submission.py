"""Submit a job of ``spark_jobs`` through Airflow's Spark connection.

spark-submit starts the job. If the connection names a Spark Connect server, the job is a Python process on this machine
that uses the server.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException

import spark_jobs
from lakehouse_airflow.connections.extra import extra_of
from lakehouse_airflow.errors import InvalidConnectionError, JobError, failure
from lakehouse_airflow.jobs.job_folder import Handle, JobFolder, digest
from lakehouse_airflow.jobs.machine import start_time, this_machine
from lakehouse_airflow.jobs.pulse import Pulse
from lakehouse_airflow.jobs.supervisor import dying_with_supervisor
from lakehouse_lib.errors import DeltaError
from spark_jobs.process.command_line import JOB_FOLDER, JOB_NAME, SPARK_CONNECT, command_line
from spark_jobs.process.parent import tied_to_this_process
from spark_jobs.process.private_files import in_memory, private_path

try:
    from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY, SparkSubmitHook

    from lakehouse_airflow.jobs.connect_server import is_connect_server, server_file
    from lakehouse_airflow.jobs.spark_program import check_extra, check_kinds, spark_home, spark_submit_path
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"operators that submit a Spark job need {error.name}; install pyspark, and Airflow's Spark provider by: "
        "pip install --no-deps apache-airflow-providers-apache-spark"
    ) from error

#: Seconds between two checks of the job of an earlier try.
_POLL_SECONDS = 1.0

#: The number of seconds in which a killed task asks the store whether a later try waits for its job. Airflow gives a
#: killed task five seconds to end.
_SECONDS_TO_ASK = 2.0

#: The keys of the dictionary in which the provider describes a connection.
_CONNECTION_KEYS = ("master", "queue", "deploy_mode", "spark_binary", "namespace", "principal", "keytab")

#: Properties of a local driver, so that no other machine can connect to the driver.
_LOCAL_CONF = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}


class JobSubmission(SparkSubmitHook):
    """The submission of a task's job. If an earlier try of the task has submitted a durable job, this try waits for it.

    Args:
        job: the module's name in ``spark_jobs``.
        arguments: the job's command line. It is logged, so it must hold no secret.
        folder: the folder of the task's jobs, where the job puts its outcome.
        durable: True: if the task's process or its supervisor is killed, the job continues, and the next try of the
            task waits for the job. False: the kernel kills the job together with the task.
        private_files: the texts of private files, by the option that names the file. The texts are in memory only.
        conn_id: a connection of the type ``spark_connect``, or of the type ``spark`` with deploy mode ``client``,
            because the driver reads private files from the memory of this machine.
        conf: Spark properties.
        driver_memory: such as ``2g``; None: Spark's default. Must be None for a Spark Connect server.

    Raises:
        AirflowFailException: the connection is missing, because the provider would then use YARN; its extra is not a
            JSON object; a value of the extra is not allowed or has the wrong type (``jobs.spark_program``); or the
            host or ``driver_memory`` does not fit a Spark Connect server (``connect_server.server_file``).
    """

    def __init__(
        self,
        job: str,
        arguments: Sequence[str],
        *,
        folder: JobFolder,
        durable: bool = True,
        private_files: Mapping[str, str] | None = None,
        conn_id: str,
        conf: dict[str, str] | None = None,
        driver_memory: str | None = None,
    ) -> None:
        try:
            connection = self.get_connection(conn_id)
        except AirflowNotFoundException:
            raise InvalidConnectionError(
                f"the Spark connection {conn_id!r} is not defined; create it with the type spark and a master such as "
                "local[*] or spark://host:7077 as its host"
            ) from None
        self._is_connect = is_connect_server(connection)
        private_files = dict(private_files or {})
        if self._is_connect:
            extra: dict[str, Any] = {}
            private_files[SPARK_CONNECT] = server_file(connection, conf, driver_memory)
        else:
            extra = extra_of(connection)
            check_extra(conn_id, extra)
            check_kinds(conn_id, connection.extra_dejson)
        is_local = (connection.host or "").startswith("local")
        spark_submit = spark_submit_path(extra.get("spark-binary", DEFAULT_SPARK_BINARY))
        submission_name = folder.new_name()
        super().__init__(
            conn_id=conn_id,
            name=f"lakehouse-{job}",
            application_args=[
                *arguments,
                *command_line((JOB_FOLDER, JOB_NAME), {"job_folder": folder.location, "job_name": submission_name}),
                *(word for option in private_files for word in (option, private_path(option.lstrip("-")))),
            ],
            conf={"spark.ui.showConsoleProgress": "false", **(_LOCAL_CONF if is_local else {}), **(conf or {})},
            driver_memory=driver_memory,
            env_vars={
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                **spark_home(spark_submit),
            },
            spark_binary=spark_submit,
        )
        self._job = job
        self._digest = digest(job, arguments, private_files)
        self._folder = folder
        self._is_durable = durable
        self._submission_name = submission_name
        self._private_files = {option.lstrip("-"): text for option, text in private_files.items()}
        # The gate is a pipe. A durable job waits for a byte in it before it begins (``parent.tied_to_this_process``).
        self._gate_reader: int | None = None
        self._gate_writer: int | None = None
        self._earlier_job: Handle | None = None
        self._outcome: dict[str, Any] | None = None
        self._is_killed = False

    def run(self) -> dict[str, Any]:
        """Run the job to its end, or wait for the end of the job of an earlier try, and return its result.

        Raises:
            AirflowFailException: the job's error, if a retry cannot help (``errors.failure``).
            AirflowException: the job has any other error, or ended without an outcome; the task was killed, or its
                supervisor had died; or another try of the task has submitted the job meanwhile.
            DeltaError: the store of the folder fails.
        """
        self._check_not_killed()
        with dying_with_supervisor():
            earlier_job = self._folder.handle() if self._is_durable else None
            if earlier_job is not None and self._wait(earlier_job):
                return self._result_of(earlier_job.name)
            submit_error = self._submit()
        try:
            self._read_outcome(self._submission_name)
            if self._outcome is None and submit_error is not None:
                raise submit_error
        except AirflowException:
            self._folder.forget(self._submission_name)
            raise
        return self._result_of(self._submission_name)

    def _result_of(self, name: str) -> dict[str, Any]:
        """Return the result in the outcome that was read last, and delete the objects of its submission.

        Args:
            name: the name of the submission.

        Raises:
            AirflowException: the outcome is an error, or is missing.
        """
        outcome = self._outcome
        self._folder.forget(name)
        if outcome is None:
            raise JobError(f"the job {self._job} ended without an outcome")
        if outcome["lakehouse"] == "error":
            raise failure(outcome["type"], outcome["message"])
        return {key: value for key, value in outcome.items() if key != "lakehouse"}

    def _read_outcome(self, name: str) -> None:
        try:
            self._outcome = self._folder.objects(name).outcome(self._job)
        except ValueError as error:
            self._folder.forget(name)
            raise JobError(f"the outcome of the job {self._job} cannot be used: {error}") from None

    def _submit(self) -> AirflowException | None:
        """Run the job to its end. Returns the error of spark-submit; None: there was no error."""
        self._folder.delete_old()
        application = Path(spark_jobs.__path__[0], f"{self._job}.py")
        self._gate_reader, self._gate_writer = os.pipe() if self._is_durable else (None, None)
        is_adopted = False
        try:
            with in_memory(self._private_files) as memory:
                # The output of Spark and its libraries may not be UTF-8.
                self.submit(
                    str(application),
                    stdin=memory,
                    start_new_session=True,
                    encoding="utf-8",
                    errors="replace",
                    pass_fds=() if self._gate_reader is None else (self._gate_reader,),
                )
        except AirflowException as error:
            return error
        except BaseException:  # such as a timeout of the task, after which the job would continue
            is_adopted = self._is_adopted()
            raise
        finally:
            if not is_adopted:
                self._kill()
            for descriptor in (self._gate_reader, self._gate_writer):
                if descriptor is not None:
                    os.close(descriptor)
            if self._submit_sp is not None and self._submit_sp.stdout is not None:
                if not is_adopted:
                    self._submit_sp.wait()
                self._submit_sp.stdout.close()
        return None

    def _wait(self, earlier_job: Handle) -> bool:
        """Wait for the job of an earlier try.

        Returns:
            Whether the job has an outcome for this try. If it has none, this try submits a job.
        """
        self._earlier_job = earlier_job
        objects = self._folder.objects(earlier_job.name)
        if earlier_job.command != self._digest:
            self.log.info(
                "cancelling the job %s of an earlier try: its arguments or conditions differ", earlier_job.name
            )
            self._kill_earlier_job()
            return False
        self.log.info(
            "an earlier try has submitted the job %s (process %d of %s); this try waits for it",
            *(
                earlier_job.name,
                earlier_job.process,
                "this machine" if earlier_job.is_on_this_machine else "another machine",
            ),
        )
        try:
            self._folder.put_handle(replace(earlier_job, adopter=self._submission_name))
            pulse = Pulse(objects)
            self._read_outcome(earlier_job.name)
            while (
                self._outcome is None and (earlier_job.lives() or not earlier_job.is_on_this_machine) and pulse.lives()
            ):
                self._check_not_killed()
                time.sleep(_POLL_SECONDS)
                if pulse.is_due():
                    self._read_outcome(earlier_job.name)
            self._check_not_killed()
            if self._outcome is None:
                self._read_outcome(earlier_job.name)
        except DeltaError:
            raise  # the next try waits again
        except BaseException:  # such as a timeout of the task
            if not self._is_adopted():
                self._kill_earlier_job()
            raise
        if earlier_job.is_on_this_machine:
            earlier_job.kill()  # a JVM may hang after the end of its driver
        if self._outcome is None:
            self.log.info("the job %s has died; it is submitted again", earlier_job.name)
            objects.stop()  # a job that is only unreachable ends at its next pulse
        self._earlier_job = None
        return self._outcome is not None

    @property
    def partial_result(self) -> dict[str, Any] | None:
        """The result of the work that a job has committed before it failed; None: the job has reported no such work."""
        return (self._outcome or {}).get("result")

    def on_kill(self) -> None:
        """Kill spark-submit and the driver's Python, so that nothing commits after the task has ended.

        Airflow calls this method from a signal handler, and the task's code continues afterwards. So this method also
        prevents the start of a job that has not started.

        If a later try waits for the job, the job continues. This happens after the death of a scheduler: Airflow starts
        a later try while this try still runs, and then kills this try.
        """
        self._is_killed = True
        if self._is_adopted():
            self.log.info("a later try waits for the job of this try, so the job continues")
            return
        self._kill()
        earlier_job = self._earlier_job  # the task's code forgets it as soon as it sees that the task is killed
        if earlier_job is not None and earlier_job.is_on_this_machine:
            earlier_job.kill()
        super().on_kill()

    def _is_adopted(self) -> bool:
        """Whether a later try waits for the job; False if the store does not answer within ``_SECONDS_TO_ASK``."""
        answers: list[bool] = []

        def ask() -> None:
            with suppress(DeltaError):
                answers.append(self._folder.is_replaced())

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(_SECONDS_TO_ASK)
        return answers == [True]

    def _check_not_killed(self) -> None:
        if self._is_killed:
            raise JobError(f"the job {self._job} was stopped or not started, because its task was killed")

    def _kill(self) -> None:
        if self._submit_sp is not None and self._submit_sp.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._submit_sp.pid, signal.SIGKILL)

    def _kill_earlier_job(self) -> None:
        """End the job of the earlier try: at once on this machine, else at its next pulse."""
        if self._earlier_job is None:
            return
        if self._earlier_job.is_on_this_machine:
            self._earlier_job.kill()
        with suppress(DeltaError):
            self._folder.objects(self._earlier_job.name).stop()
        self._earlier_job = None

    def _resolve_connection(self) -> dict[str, Any]:
        if not self._is_connect:
            connection: dict[str, Any] = super()._resolve_connection()
            return connection
        # The provider would read the fields of the Spark Connect connection as those of a Spark master.
        return {**dict.fromkeys(_CONNECTION_KEYS), "master": "", "spark_binary": sys.executable}

    def _build_spark_submit_command(self, application: str) -> list[str]:
        if self._is_connect:
            return tied_to_this_process([sys.executable, application, *self._application_args], self._gate_reader)
        command: list[str] = super()._build_spark_submit_command(application)
        return command

    def _get_spark_binary_path(self) -> list[str]:
        return tied_to_this_process(super()._get_spark_binary_path(), self._gate_reader)

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        if self._is_killed:  # on_kill was called before the process id was known
            self._kill()
        elif self._gate_writer is not None:
            self._open_gate(self._submit_sp.pid)
        super()._process_spark_submit_log(itr)

    def _open_gate(self, process: int) -> None:
        """Put the handle of the job before the job begins, so that every job that outlives its task has a handle."""
        started = start_time(process)
        if started is None:
            return  # the process has ended; its output has the reason
        self._folder.put_handle(Handle(self._submission_name, self._digest, this_machine(), process, started))
        os.write(self._gate_writer, b"1")
