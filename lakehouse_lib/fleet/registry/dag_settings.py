"""The settings of the DAGs that load and maintain tables."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lakehouse_lib.fleet.registry.fields import ConnectionId, Reference, Schedule, Strict

# The largest lengths are those of the columns in Airflow's database.
_Tag = Annotated[str, Field(min_length=1, max_length=100)]


_MINUTES_OF_YEAR = 366 * 24 * 60


class DagSettings(Strict):
    """The settings of the DAGs that load and maintain tables. None: the default of Airflow or of the operators."""

    per: Literal["table", "group"] | None = Field(
        default=None, description="table: a DAG for each table; group: for each group; None: the common DAG"
    )
    ingest: Schedule | None = Field(
        default=None, description="schedule of the ingest DAG: a cron expression or a preset"
    )
    maintenance: Schedule | None = Field(default=None, description="schedule of the maintenance DAG")
    owner: str | None = Field(default=None, min_length=1, max_length=500)
    tags: tuple[_Tag, ...] = Field(default=(), description="tags in addition to the tag lakehouse")
    pool: str | None = Field(
        default=None, min_length=1, max_length=256, description="the pool of the tasks that load and maintain"
    )
    timeout_minutes: float | None = Field(
        default=None, gt=0, le=_MINUTES_OF_YEAR, description="minutes; a DAG run that takes longer fails"
    )
    execution_timeout_minutes: float | None = Field(
        default=None, gt=0, le=_MINUTES_OF_YEAR, description="minutes; a try of a task that takes longer fails"
    )
    retries: int | None = Field(default=None, ge=0, le=1000, description="how often a failed task is tried again")
    notifiers: tuple[Reference, ...] = Field(
        default=(), description="package.module:factory; each makes an Airflow notifier that is called if a run fails"
    )
    paused: bool | None = Field(default=None, description="whether a new DAG is paused")
    lakehouse_conn_id: ConnectionId | None = Field(
        default=None, description="the connection that opens the tables, also in other DAGs and in the pages"
    )
    spark_conn_id: ConnectionId | None = Field(default=None, description="the connection of the Spark jobs")
    spark_conf: dict[str, str] = Field(default={}, description="Spark properties of the jobs")
    driver_memory: str | None = Field(default=None, min_length=1, description="memory of the Spark driver, such as 2g")
