"""Base classes of the operators that submit a job of ``spark_jobs`` through the Spark connection."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import BaseOperator
from airflow.sdk.bases.xcom import BaseXCom

from lakehouse_airflow.assets import describe_events
from lakehouse_airflow.errors import InvalidParameterError, as_task_failure, failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.jobs.in_process import run_in_process
from lakehouse_airflow.jobs.job_folder import JobFolder
from lakehouse_airflow.jobs.submission import JobSubmission
from lakehouse_airflow.lineage import Lineage, openlineage_of
from lakehouse_airflow.links import TableVersionLink, result_version
from lakehouse_airflow.operators.base.rendered import read_rendered
from lakehouse_airflow.registry import is_configured, load_registry, require_registered
from lakehouse_airflow.task_metadata import task_application, task_metadata
from lakehouse_lib.catalogue import APP_TRANSACTION
from lakehouse_lib.catalogue.operation import Parameter
from spark_jobs.process.command_line import command_line, file_option
from spark_jobs.process.job_objects import JOBS_FOLDER

if TYPE_CHECKING:
    from airflow.sdk import Context


_ENGINES = ("auto", "arrow", "spark")
#: Parameters that the operators have, but the jobs do not.
_PARAMETERS = (
    Parameter("durable", "flag", "the job outlives its worker", default=True),
    Parameter("spark_from_bytes", "bytes", "the number of bytes from which Spark runs the job", default=2**30),
)


class SubmitOperator(BaseOperator):
    """Runs a job and returns its result (XCom), a dict. All arguments of this class are templated.

    If a job fails after a part of its work was committed, the result of this part is the XCom.

    Args:
        lakehouse_conn_id: as the argument of ``LakehouseHook``.
        spark_conn_id: connection of type ``spark`` with deploy mode ``client``, or of type ``spark_connect``.
        spark_conf: Spark properties of this job.
        driver_memory: such as ``2g``; None: Spark's default.
        durable: if the worker dies, the job continues, and the next try waits for the job. False: the job dies with the
            worker.

    Raises:
        AirflowFailException: a retry cannot help; the message is that of the library's error.
        AirflowException: the error may be temporary.
    """

    job: ClassVar[str]
    job_parameters: ClassVar[tuple[Parameter, ...]]
    template_fields: Sequence[str] = ("lakehouse_conn_id", "spark_conn_id", "spark_conf", "driver_memory", "durable")
    #: How Airflow's UI shows the rendered arguments of all subclasses.
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("apply_as_deletes", "predicate", "where"), "sql"),
        **dict.fromkeys(("clauses", "constraints", "spark_conf", "updates"), "json"),
    }
    ui_color = "#e8f0fe"

    def __init__(
        self,
        *,
        lakehouse_conn_id: str | None = None,
        spark_conn_id: str = "spark_default",
        spark_conf: dict[str, str] | None = None,
        driver_memory: str | None = None,
        durable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.lakehouse_conn_id = lakehouse_conn_id
        self.spark_conn_id = spark_conn_id
        self.spark_conf = spark_conf
        self.driver_memory = driver_memory
        self.durable = durable
        self._submission: JobSubmission | None = None
        self._is_killed = False

    def arguments(self, hook: LakehouseHook) -> list[str]:
        """The job's command line. It is logged, and all users of the machine can see it."""
        return command_line(self.job_parameters, self.job_values(hook))

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:  # noqa: ARG002
        """The values of the job's parameters by name, for its command line; None: the parameter is left out."""
        return {}

    def private_files(self, hook: LakehouseHook) -> dict[str, str]:  # noqa: ARG002
        """Texts that are secret, personal or too long for a command line, by the name of their file.

        For example, the text of the parameter ``predicate`` has the name ``predicate_file``. The texts are in memory
        only (``spark_jobs.process.private_files``). Default: none.
        """
        return {}

    @abstractmethod
    def opened_tables(self) -> list[str]:
        """All tables that the job opens: names in the registry, or locations."""

    def storage_options(self, hook: LakehouseHook) -> dict[str, dict[str, str] | None]:
        """The storage options of each location that the job opens."""
        return {hook.uri(table): hook.storage_options(table) for table in self.opened_tables()}

    def job_folder(self, hook: LakehouseHook) -> tuple[str, dict[str, str] | None]:
        """The location of the objects of jobs: ``jobs`` below the registry's ``records``, else ``_jobs`` in a table.

        Returns:
            The location, and the options of its store.
        """
        records = load_registry().records if is_configured() else None
        if records is not None:
            location = f"{records.rstrip('/')}/jobs"
            return location, hook.opener_of_records().storage_options(location)
        return f"{hook.uri(self.written_table).rstrip('/')}/{JOBS_FOLDER}", hook.storage_options(self.written_table)

    @property
    def written_table(self) -> str:
        """A table that the job changes: a name in the registry, or a location."""
        return self.opened_tables()[0]

    def execute(self, context: Context) -> dict[str, Any]:
        with as_task_failure():
            read_rendered(self, (*self.job_parameters, *_PARAMETERS))
            hook = LakehouseHook(self.lakehouse_conn_id)
            arguments = [*self.arguments(hook), *self._app_transaction(context)]
            files = self.private_files(hook)
            options = self.storage_options(hook)
            location, options[location] = self.job_folder(hook)
            if any(options.values()):
                files["storage_options_file"] = json.dumps(options)
            files["commit_metadata_file"] = json.dumps(task_metadata(context))
            private_files = {file_option(self.job_parameters, name): text for name, text in files.items()}
            folder = JobFolder(location, options[location], task_application(context))
            # An earlier try may have submitted the job.
            result = None if folder.handle() else self.in_process(context, arguments, private_files)
            if result is not None:
                return result
            self._submission = JobSubmission(
                self.job,
                arguments,
                folder=folder,
                durable=self.durable,
                private_files=private_files,
                conn_id=self.spark_conn_id,
                conf=self.spark_conf,
                driver_memory=self.driver_memory,
            )
            if self._is_killed:
                self._submission.on_kill()
            try:
                return self._submission.run()
            except AirflowException:
                if self._submission.partial_result is not None:
                    context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, self._submission.partial_result)
                raise

    def in_process(
        self,
        context: Context,  # noqa: ARG002
        arguments: Sequence[str],  # noqa: ARG002
        private_files: Mapping[str, str],  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """Run the job in this process and return its result; None: the job is submitted. Default: None."""
        return None

    def _app_transaction(self, context: Context) -> list[str]:
        """The argument with the task's application id, by which a retry finds the commit of an earlier try."""
        if APP_TRANSACTION not in self.job_parameters:
            return []
        return command_line(self.job_parameters, {APP_TRANSACTION.name: task_application(context)})

    def on_kill(self) -> None:
        self._is_killed = True
        if self._submission is not None:
            self._submission.on_kill()


class LakehouseJobOperator(SubmitOperator):
    """Runs a job on a table; the result has at least ``job``, ``table`` (URI) and ``version`` (None: no commit).

    A job that reads few bytes runs on Arrow, in the process of the task. All arguments of this class are templated,
    except ``registered_only`` and ``tables``.

    Args:
        engine: ``auto``: Arrow if the job reads less than ``spark_from_bytes`` and Arrow supports the job, else Spark;
            ``arrow`` or ``spark``: always this engine.
        spark_from_bytes: the size of the data files from which Spark runs the job, in bytes. The log has the sizes.
        table: a table's name in the registry, or its location.
        registered_only: accept only names in the registry, for every table that the job opens. Set it if the name of a
            table is from XCom or a param, which users may edit.
        tables: with ``registered_only``, accept only these names, the tables of the DAG; None: all of the registry.
    """

    template_fields: Sequence[str] = (*SubmitOperator.template_fields, "table", "engine", "spark_from_bytes")
    operator_extra_links = (TableVersionLink(),)

    def __init__(
        self,
        *,
        table: str,
        registered_only: bool = False,
        tables: Sequence[str] | None = None,
        engine: Literal["auto", "arrow", "spark"] = "auto",
        spark_from_bytes: int = 2**30,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.engine = engine
        self.spark_from_bytes = spark_from_bytes
        self.table = table
        self.registered_only = registered_only
        self.tables = tables
        self.result_version: tuple[str, int] | None = None
        self.lineage: Lineage | None = None

    def opened_tables(self) -> list[str]:
        return [self.table]

    def in_process(
        self, context: Context, arguments: Sequence[str], private_files: Mapping[str, str]
    ) -> dict[str, Any] | None:
        from lakehouse_lib import commit_metadata
        from spark_jobs.job import FailedAfterWork

        if self.engine not in _ENGINES:
            raise InvalidParameterError(f"engine is {self.engine!r}; expected one of {', '.join(_ENGINES)}")
        if self.engine == "spark" or self._is_killed:
            return None
        max_bytes = self.spark_from_bytes - 1 if self.engine == "auto" else None
        try:
            with commit_metadata(task_metadata(context)):
                result = run_in_process(self.job, arguments, private_files, max_bytes)
        except FailedAfterWork as failed:
            context["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, failed.result)
            raise failure(type(failed.error).__name__, str(failed.error)) from None
        self.log.info("the job %s %s", self.job, "needs Spark" if result is None else "ran in this process")
        return result

    def execute(self, context: Context) -> dict[str, Any]:
        with as_task_failure():
            if self.registered_only:
                for table in self.opened_tables():
                    require_registered(table, self.tables)
            result = super().execute(context)
            hook = LakehouseHook(self.lakehouse_conn_id)
            self.result_version = result_version(self.written_table, result)
            describe_events(context, self, self.written_table, hook.uri(self.written_table).rstrip("/"), result)
            self.lineage = self.lineage_of(hook, result)
        return result

    def lineage_of(self, hook: LakehouseHook, result: Mapping[str, Any]) -> Lineage:
        """The locations that the job has read and written."""
        written = hook.uri(self.written_table).rstrip("/")
        locations = [hook.uri(table) for table in self.opened_tables()]
        others = [location for location in locations if location.rstrip("/") != written]
        return Lineage.of_table(hook, self.written_table, others, result)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002 - OpenLineage's signature
        """The tables that the job has read and written, for OpenLineage."""
        return openlineage_of(self.lineage)
