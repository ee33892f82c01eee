"""The settings of the DAGs that load and maintain tables."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lakehouse_lib.fleet.registry.fields import Strict


class DagSettings(Strict):
    """The settings of the DAGs that load and maintain tables. None: the default of Airflow or of the operators."""

    per: Literal["table", "group"] | None = Field(
        default=None, description="table: a DAG for each table; group: for each group; None: the common DAG"
    )
    ingest: str | None = Field(default=None, description="schedule of the ingest DAG: a cron expression or a preset")
    maintenance: str | None = Field(default=None, description="schedule of the maintenance DAG")
    owner: str | None = Field(default=None, min_length=1)
    tags: tuple[str, ...] = Field(default=(), description="tags in addition to the tag lakehouse")
    pool: str | None = Field(default=None, min_length=1, description="the pool of the tasks that load and maintain")
    timeout_minutes: float | None = Field(default=None, gt=0, description="minutes; a DAG run that takes longer fails")
    paused: bool | None = Field(default=None, description="whether a new DAG is paused")
    lakehouse_conn_id: str | None = Field(
        default=None,
        min_length=1,
        description="the connection that opens the tables, also in other DAGs and in the pages",
    )
    spark_conn_id: str | None = Field(default=None, min_length=1, description="the connection of the Spark jobs")
    spark_conf: dict[str, str] = Field(default={}, description="Spark properties of the jobs")
    driver_memory: str | None = Field(default=None, min_length=1, description="memory of the Spark driver, such as 2g")
