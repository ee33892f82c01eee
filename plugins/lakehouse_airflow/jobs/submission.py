"""Submit a job of ``spark_jobs`` by spark-submit, through Airflow's Spark connection."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowNotFoundException

import spark_jobs
from lakehouse_airflow.connections.extra import extra_of
from lakehouse_airflow.failures import failure
from lakehouse_airflow.jobs.supervisor import dying_with_supervisor
from spark_jobs.process.parent import tied_to_this_process
from spark_jobs.process.private_files import in_memory, private_path

try:
    from airflow.providers.apache.spark.hooks.spark_submit import (
        ALLOWED_SPARK_BINARIES,
        DEFAULT_SPARK_BINARY,
        SparkSubmitHook,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"operators that submit a Spark job need {error.name}; install pyspark, and Airflow's Spark provider by: "
        "pip install --no-deps apache-airflow-providers-apache-spark"
    ) from error

_MARK = '{"lakehouse":'

#: Properties of a local driver, so that no other machine can connect to the driver.
_LOCAL_CONF = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}


class JobSubmission(SparkSubmitHook):
    """A single run of a job.

    The job's last line on standard output is a JSON object, its result or its error (docs/architecture-platform.md).

    Args:
        job: the module's name in ``spark_jobs``.
        arguments: the job's command line. It is logged, so it must hold no secret.
        private_files: the texts of private files, by the option that names the file. They are in memory only.
        conn_id: a Spark connection with deploy mode ``client``, because the result is read from the driver's output.
        conf: Spark properties.
        driver_memory: such as ``2g``; default: Spark's.

    Raises:
        AirflowFailException: the connection is missing (the provider would use YARN), its extra is not a JSON object,
            or the extra has a value that is not allowed (``_check_extra``) or of the wrong type.
    """

    def __init__(
        self,
        job: str,
        arguments: Sequence[str],
        *,
        private_files: Mapping[str, str] | None = None,
        conn_id: str,
        conf: dict[str, str] | None = None,
        driver_memory: str | None = None,
    ) -> None:
        try:
            connection = self.get_connection(conn_id)
        except AirflowNotFoundException:
            raise AirflowFailException(
                f"the Spark connection {conn_id!r} is not defined; create it with the type spark and a master such as "
                "local[*] or spark://host:7077 as its host"
            ) from None
        extra = extra_of(connection)
        _check_extra(conn_id, extra)
        _check_kinds(conn_id, connection.extra_dejson)
        local = (connection.host or "").startswith("local")
        spark_submit = _spark_submit(extra.get("spark-binary", DEFAULT_SPARK_BINARY))
        super().__init__(
            conn_id=conn_id,
            name=f"lakehouse-{job}",
            application_args=[
                *arguments,
                *(word for option in private_files or {} for word in (option, private_path(option.lstrip("-")))),
            ],
            conf={"spark.ui.showConsoleProgress": "false", **(_LOCAL_CONF if local else {}), **(conf or {})},
            driver_memory=driver_memory,
            env_vars={
                "PYSPARK_PYTHON": sys.executable,
                "PYSPARK_DRIVER_PYTHON": sys.executable,
                **_spark_home(spark_submit),
            },
            spark_binary=spark_submit,
        )
        self._job = job
        self._private_files = {option.lstrip("-"): text for option, text in (private_files or {}).items()}
        self._outcome: dict[str, Any] | None = None
        self._is_killed = False

    def run(self) -> dict[str, Any]:
        """Run the job to its end and return its result.

        The kernel kills the job when this process dies. If Airflow supervises the task, it also kills the job when the
        supervisor dies.

        Raises:
            AirflowFailException: the job's error, if a retry cannot help (``failures.failure``).
            AirflowException: any other error of the job; Spark ended without a result; or the task was killed before
                the job started.
        """
        if self._is_killed:
            raise AirflowException(f"the job {self._job} was not started, because its task was killed")
        application = Path(spark_jobs.__path__[0], f"{self._job}.py")
        submit_error: AirflowException | None = None
        try:
            with dying_with_supervisor(), in_memory(self._private_files) as memory:
                # The output of Spark and its libraries may not be UTF-8.
                self.submit(str(application), stdin=memory, start_new_session=True, encoding="utf-8", errors="replace")
        except AirflowException as error:
            submit_error = error
        finally:
            self._kill()  # a timeout of the task is an exception here, and the job would still run
            if self._submit_sp is not None and self._submit_sp.stdout is not None:
                self._submit_sp.wait()
                self._submit_sp.stdout.close()
        outcome = self._outcome or {}
        if outcome.get("lakehouse") == "error":
            raise failure(outcome["type"], outcome["message"])
        if submit_error is not None:
            raise submit_error
        if outcome.get("lakehouse") != "result":
            raise AirflowException(f"the job {self._job} ended without a result line on its standard output")
        return {key: value for key, value in outcome.items() if key != "lakehouse"}

    @property
    def done_before_failing(self) -> dict[str, Any] | None:
        """The partial result that a failed job has reported; None without one."""
        return (self._outcome or {}).get("result")

    def on_kill(self) -> None:
        """Kill spark-submit and the driver's Python, so that nothing commits after the task has ended.

        Airflow calls this from a signal handler, and the task's code goes on afterwards; a job that has not started
        must not start then.
        """
        self._is_killed = True
        self._kill()
        super().on_kill()

    def _kill(self) -> None:
        if self._submit_sp is not None and self._submit_sp.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._submit_sp.pid, signal.SIGKILL)

    def _get_spark_binary_path(self) -> list[str]:
        return tied_to_this_process(super()._get_spark_binary_path())

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        if self._is_killed:  # on_kill was called before the process id was known
            self._kill()
        super()._process_spark_submit_log(self._keep_outcome(itr))

    def _keep_outcome(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            # Standard error uses the same pipe, so its text may be on the same line.
            start = line.find(_MARK)
            if start >= 0:
                with suppress(json.JSONDecodeError):
                    self._outcome, _ = json.JSONDecoder().raw_decode(line, start)
            yield line


def _check_extra(conn_id: str, extra: Mapping[str, Any]) -> None:
    """Reject extras that choose a program: users who may edit connections must not run programs on the workers.

    The provider has the same rules for ``spark-binary`` and ``spark-home``, but only for a binary that it looks up
    itself. It writes ``keytab`` into a temporary file and never removes it.

    Raises:
        AirflowFailException: the extra has such a key; the text names connection and key, and no secret value.
    """
    if extra.get("deploy-mode", "client") != "client":
        raise AirflowFailException(
            f"the Spark connection {conn_id!r} has deploy-mode {extra['deploy-mode']!r}; expected client, because the "
            "job's result is read from the driver's output"
        )
    binary = extra.get("spark-binary", DEFAULT_SPARK_BINARY)
    if binary not in ALLOWED_SPARK_BINARIES:
        raise AirflowFailException(
            f"the Spark connection {conn_id!r} has spark-binary {binary!r}; expected one of "
            f"{', '.join(ALLOWED_SPARK_BINARIES)}, which is looked up on the worker's PATH"
        )
    if extra.get("spark-home"):
        raise AirflowFailException(
            f"the Spark connection {conn_id!r} has spark-home in its extra, which is not allowed; put that folder's "
            "spark-submit on the worker's PATH"
        )
    if extra.get("keytab"):
        raise AirflowFailException(
            f"the Spark connection {conn_id!r} has keytab in its extra, which the provider would leave on the worker's "
            "disk; install the keytab on the workers, and set spark.kerberos.keytab and spark.kerberos.principal in "
            "spark_conf"
        )


def _check_kinds(conn_id: str, extra: Mapping[str, Any]) -> None:
    """Check the types of extras that the provider reads, because its own errors name neither connection nor key.

    Args:
        extra: the extra as Airflow parses it, with null values, because the provider reads a null port.

    Raises:
        AirflowFailException: a value is of the wrong type; the text names connection, key and value.
    """
    port = extra.get("rest-port", 6066)
    try:
        int(port)
    except (TypeError, ValueError):
        raise AirflowFailException(
            f"the Spark connection {conn_id!r} has rest-port {port!r}; expected a whole number, or no rest-port"
        ) from None
    for key in ("queue", "namespace", "principal"):
        if not isinstance(extra.get(key), str | None):
            raise AirflowFailException(f"the Spark connection {conn_id!r} has {key} {extra[key]!r}; expected a text")


def _spark_submit(name: str) -> str:
    beside_python = Path(sys.executable).parent / name
    # Airflow may run from an environment whose bin folder is not on PATH.
    return shutil.which(name) or (str(beside_python) if beside_python.exists() else name)


def _spark_home(spark_submit: str) -> dict[str, str]:
    """SPARK_HOME for the spark-submit of this Python's pyspark; empty for another one, or if SPARK_HOME is set.

    Without it, that spark-submit does not find Spark in a path with a space.
    """
    spec = importlib.util.find_spec("pyspark")
    own = Path(shutil.which(spark_submit) or spark_submit).parent == Path(sys.executable).parent
    if not own or spec is None or spec.origin is None or "SPARK_HOME" in os.environ:
        return {}
    return {"SPARK_HOME": str(Path(spec.origin).parent)}
