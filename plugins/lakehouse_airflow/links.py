"""The link from a task to the page of the table version that it committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

from lakehouse_airflow.registry import registered_entry

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

URL_PREFIX = "/lakehouse"


def table_path(table: str, connection: str | None = None) -> str:
    """The path of a table's page on Airflow's server. The arguments are those of ``version_path``."""
    return _opened_by(connection, f"{URL_PREFIX}/tables/{quote(table, safe='')}")


def version_path(table: str, version: int, connection: str | None = None) -> str:
    """The path of a version's page on Airflow's server.

    Args:
        table: a name in the registry.
        connection: the id of the connection with which the page opens the table. None: the connection in the registry.
    """
    return _opened_by(connection, f"{table_path(table)}/versions/{version}")


def _opened_by(connection: str | None, path: str) -> str:
    return path if connection is None else f"{path}?connection={quote(connection, safe='')}"


def result_version(table: str, result: Mapping[str, Any]) -> tuple[str, int] | None:
    """The table, and the version that was committed, else the version that was read; None: the result has neither."""
    version = result.get("version")
    if version is None:
        version = result.get("read_version")
    return None if version is None else (table, version)


class TableVersionLink(BaseOperatorLink):
    """The button "Table version" of a task.

    The link is empty if the task has no version, or if the table is not registered. Airflow calls ``get_link`` in the
    worker when the task ends, and stores the link as XCom.
    """

    name = "Table version"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        version = getattr(operator, "result_version", None)
        if version is None or registered_entry(version[0]) is None:  # only registered tables have pages
            return ""
        base = conf.get("api", "base_url", fallback="") or ""
        return base.rstrip("/") + version_path(*version, getattr(operator, "lakehouse_conn_id", None))
