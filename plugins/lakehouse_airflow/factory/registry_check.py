"""Fails, and lists the mistakes of the registry. A table or a DAG with a mistake is missing until you correct it.

This DAG exists only while the registry has mistakes. `lakehouse registry check FILE` lists the mistakes of tables, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, BaseOperator

from lakehouse_airflow.factory.settings import COMMON, TAG

if TYPE_CHECKING:
    from airflow.sdk import Context

DAG_ID = "lakehouse_registry"


class _CheckRegistry(BaseOperator):
    """Fails with the mistakes.

    Raises:
        AirflowFailException: always, because the registry has a mistake.
    """

    def __init__(self, *, mistakes: str, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.mistakes = mistakes

    def execute(self, context: Context) -> None:  # noqa: ARG002
        raise AirflowFailException(self.mistakes)


def check_dag(mistakes: Mapping[str, str]) -> DAG:
    """The DAG that fails with these mistakes, by the name of the table or the id of the DAG."""
    with DAG(
        DAG_ID,
        schedule="@hourly",
        **COMMON,
        max_active_runs=1,
        description=f"Mistakes of {', '.join(sorted(mistakes))}"[:1000],
        doc_md=__doc__,
        tags=[TAG],
        is_paused_upon_creation=False,
    ) as dag:
        _CheckRegistry(task_id="check", mistakes="\n".join(mistakes.values()))
    return dag
