"""The URLs of the pages, and of Airflow's own pages and API, as paths on Airflow's server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from lakehouse_airflow.links import URL_PREFIX, table_path, version_path

if TYPE_CHECKING:
    from starlette.requests import Request

    from lakehouse_airflow.pages.views.commit import Task


class Urls:
    """The paths on the server that has received a request.

    Args:
        airflow: the path of Airflow itself, without a slash at its end; "": Airflow is at the root of the server.
        connection: the connection with which the requested page opens tables; None: the connection in the registry.
    """

    def __init__(self, airflow: str, connection: str | None = None) -> None:
        self.airflow = airflow
        self.connection = connection

    @classmethod
    def of(cls, request: Request) -> Urls:
        """The paths of the server that has received this request."""
        airflow = str(request.scope.get("root_path", "")).removesuffix(URL_PREFIX)
        return cls(airflow, request.query_params.get("connection"))

    def static(self, name: str) -> str:
        """A file of the folder ``static``."""
        return f"{self.airflow}{URL_PREFIX}/static/{name}"

    def tables(self, query: Mapping[str, str] | None = None) -> str:
        """The page of all tables.

        Args:
            query: parameters of the page, such as ``sort``.
        """
        path = f"{self.airflow}{URL_PREFIX}/tables"
        return f"{path}?{urlencode(query)}" if query else path

    def table(self, name: str) -> str:
        """The page of a table."""
        return self.airflow + table_path(name, self.connection)

    def measured_table(self, name: str) -> str:
        """The page of a table, which measures the table even if it is large."""
        path = self.table(name)
        return f"{path}{'&' if '?' in path else '?'}measure=true"

    def version(self, name: str, version: int) -> str:
        """The page of a version."""
        return self.airflow + version_path(name, version, self.connection)

    def loads(self, name: str) -> str:
        """The page of the loads of a table."""
        return f"{self.airflow}{table_path(name)}/loads"

    def maintenance(self, name: str) -> str:
        """The page that asks whether to maintain a table."""
        return f"{self.airflow}{table_path(name)}/maintenance"

    def erasures(self) -> str:
        """The page of all erasures."""
        return f"{self.airflow}{URL_PREFIX}/erasures"

    def erasure(self, subject: str, request: str) -> str:
        """The page of an erasure."""
        return f"{self.erasures()}/{_segment(subject)}/{_segment(request)}"

    def dag(self, dag_id: str) -> str:
        """Airflow's page of a DAG."""
        return f"{self.airflow}/dags/{_segment(dag_id)}"

    def dag_run(self, dag_id: str, run_id: str = "") -> str:
        """Airflow's page of a DAG run; without ``run_id``, the beginning of this path."""
        return f"{self.dag(dag_id)}/runs/{_segment(run_id)}"

    def task(self, task: Task) -> str:
        """Airflow's page of a task."""
        path = f"{self.dag_run(task.dag_id, task.run_id)}/tasks/{_segment(task.task_id)}"
        return path if task.map_index < 0 else f"{path}/mapped/{task.map_index}"

    def question(self, task: Task) -> str:
        """Airflow's page with the question that a task asks a person."""
        return f"{self.task(task)}/required_actions"

    def dag_runs_of_api(self, dag_id: str) -> str:
        """The runs of a DAG in Airflow's public API."""
        return f"{self.airflow}/api/v2/dags/{_segment(dag_id)}/dagRuns"

    def login(self, request: Request) -> str:
        """Airflow's login, which redirects back to the page of this request."""
        page = request.scope["path"] + (f"?{request.url.query}" if request.url.query else "")
        return f"{self.airflow}/api/v2/auth/login?{urlencode({'next': page})}"


def _segment(name: str) -> str:
    return quote(name, safe="")
