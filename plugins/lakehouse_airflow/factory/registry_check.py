"""Fails, and lists the tables that have mistakes in the registry. Such a table is in no other DAG until you correct it.

This DAG exists only while tables have mistakes. `lakehouse registry check FILE` lists the mistakes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, BaseOperator

from lakehouse_airflow.factory.settings import TAG
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.fleet.registry import Registry

if TYPE_CHECKING:
    from airflow.sdk import Context

_DAG_ID = "lakehouse_registry"


def registry_check_dags(registry: Registry) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """The id and the factory of the DAG; nothing if no table of the registry has mistakes."""
    if registry.invalid_tables:
        yield _DAG_ID, partial(_check_dag, sorted(registry.invalid_tables))


class _CheckRegistry(BaseOperator):
    """Fails with the mistakes of the registry's tables.

    Raises:
        AirflowFailException: a table has a mistake.
    """

    def execute(self, context: Context) -> None:  # noqa: ARG002
        mistakes = load_registry().invalid_tables
        if mistakes:
            raise AirflowFailException("\n".join(mistakes.values()))


def _check_dag(tables: list[str]) -> DAG:
    with DAG(
        _DAG_ID,
        schedule="@hourly",
        catchup=False,
        max_active_runs=1,
        description=f"Mistakes of {', '.join(tables)}"[:1000],
        doc_md=__doc__,
        tags=[TAG],
        is_paused_upon_creation=False,
    ) as dag:
        _CheckRegistry(task_id="check")
    return dag
