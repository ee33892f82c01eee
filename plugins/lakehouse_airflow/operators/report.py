"""The downstream table: how far it has got, and making it anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from spark_jobs import aggregate


class LakehouseReadCursorOperator(LakehouseTableOperator):
    """Returns the version that ``table`` was last made from, or -1: its txn of the application ``app_id``.

    The cursor is in the log of what was made, in the same commit, so it cannot disagree with it.
    """

    def __init__(self, *, app_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app_id = app_id

    def run(self, hook: LakehouseHook) -> int:
        if hook.version(self.table) is None:
            return -1
        version = hook.table(self.table).transaction_version(self.app_id)
        return -1 if version is None else version


class LakehouseAggregateOperator(LakehouseJobOperator):
    """Writes the answer of a SQL query over tables as a table, overwriting it, together with the cursor.

    Does nothing where the cursor has been reached already.

    Args:
        table: where the answer goes.
        inputs: names in the registry; each is a view of that name in the query.
        sql_file: path of the query.
        app_id: whose cursor.
        app_version: the version of the first input that this run answers for (templated). One that the table does not
            have yet is refused: as a cursor it would keep later runs from doing anything.
    """

    job = "aggregate"
    job_parameters = aggregate.PARAMETERS
    template_fields = ("table", "app_version")

    def __init__(
        self, *, inputs: Sequence[str], sql_file: str, app_id: str, app_version: int | str, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = tuple(inputs)
        self.sql_file = sql_file
        self.app_id = app_id
        self.app_version = app_version

    def locations(self, hook: LakehouseHook) -> list[str]:
        return [*super().locations(hook), *(hook.uri(name) for name in self.inputs)]

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        from lakehouse_lib.errors import InvalidArgumentError

        try:
            version = int(self.app_version)
        except ValueError:
            raise AirflowFailException(f"app_version is {self.app_version!r}; it has to be a table's version") from None
        latest = hook.version(self.inputs[0])
        if latest is not None and version > latest:
            raise InvalidArgumentError(
                f"app_version is {version}; expected at most {latest}, the version of the table {self.inputs[0]!r}",
                hint="Where XCom has it, which users may edit, run the DAG again",
                code="DELTA_INVALID_VERSION",
            )
        return {
            "input": [(name, hook.uri(name)) for name in self.inputs],
            "sql_file": self.sql_file,
            "output": hook.uri(self.table),
            "app_id": self.app_id,
            "app_version": version,
        }
