"""Links from a task to the page of the table version it made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.registry import registered

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

URL_PREFIX = "/lakehouse"


def version_path(table: str, version: int, connection: str = LakehouseHook.default_conn_name) -> str:
    """Path of the page of that version of a registered table, on Airflow's own server.

    Args:
        connection: the id of that by which the page opens the table.
    """
    path = f"{URL_PREFIX}/tables/{quote(table, safe='')}/versions/{version}"
    return path if connection == LakehouseHook.default_conn_name else f"{path}?connection={quote(connection, safe='')}"


def made_version(table: str, result: Mapping[str, Any]) -> tuple[str, int] | None:
    """The table and the version that a result is about: what was committed, else what was read; None: neither."""
    version = result.get("version")
    if version is None:
        version = result.get("read_version")
    return None if version is None else (table, version)


class TableVersionLink(BaseOperatorLink):
    """Button "Table version" on a task; empty while the task made none.

    Airflow asks for it in the worker when the task ends and keeps the answer in XCom.
    """

    name = "Table version"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002
        made = getattr(operator, "made_version", None)
        if made is None or registered(made[0]) is None:  # pages are for registered tables only
            return ""
        base = conf.get("api", "base_url", fallback="") or ""
        connection = getattr(operator, "lakehouse_conn_id", LakehouseHook.default_conn_name)
        return base.rstrip("/") + version_path(*made, connection)
