"""The base class of the operators that work on an approved erasure in the task itself, without Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from lakehouse_airflow.erasure.request import Erasure, ErasureTasks
from lakehouse_airflow.errors import as_task_failure

if TYPE_CHECKING:
    from airflow.sdk import Context


class ApprovedErasureOperator(BaseOperator):
    """Opens the run's approved erasure, calls ``run`` with this erasure, and returns the result of ``run`` (XCom).

    Args:
        subject: a subject of the registry.
        located_by: task id of the LakehouseLocateSubjectOperator.
        approved_by: task id of the LakehouseErasureApprovalOperator.
        lakehouse_conn_id: as the argument of ``LakehouseHook``.

    Raises:
        AirflowFailException: there is no valid approval, or the registry has moved or dropped a table.
    """

    template_fields: Sequence[str] = ()
    ui_color = "#fce8e6"

    def __init__(
        self,
        *,
        subject: str,
        located_by: str,
        approved_by: str,
        lakehouse_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.erasure = ErasureTasks(subject, located_by, approved_by)
        self.lakehouse_conn_id = lakehouse_conn_id

    @abstractmethod
    def run(self, erasure: Erasure) -> dict[str, Any]:
        """Work on the erasure. Overrides translate errors of the library themselves (``as_task_failure``)."""

    def execute(self, context: Context) -> dict[str, Any]:
        with as_task_failure():
            erasure = self.erasure.open(context)
        return self.run(erasure)
