"""Operators of a table that is computed from other tables: read its cursor, and compute the table again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.errors import InvalidParameterError, as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import LakehouseJobOperator
from lakehouse_airflow.operators.base.rendered import read_rendered
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_lib.catalogue.operation import Parameter
from spark_jobs import aggregate

if TYPE_CHECKING:
    from airflow.sdk import Context

_INPUTS = Parameter("inputs", "names", "the tables of the query", default=())


class LakehouseReadCursorOperator(LakehouseTableOperator):
    """Returns the cursor of ``table``: the version of its input from which the table was computed last, or -1.

    The cursor is the ``txn`` of ``app_id`` in the table's log. It is in the same commit as the rows, so cursor and rows
    always agree.

    Args:
        app_id: the application id of the cursor (templated).
    """

    template_fields = (*LakehouseTableOperator.template_fields, "app_id")

    def __init__(self, *, app_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app_id = app_id

    def run(self, hook: LakehouseHook) -> int:
        if hook.version(self.table) is None:
            return -1
        version = hook.table(self.table).transaction_version(self.app_id)
        return -1 if version is None else version


class LakehouseAggregateOperator(LakehouseJobOperator):
    """Overwrites a table with the result of a SQL query, and commits the cursor with it.

    Does nothing if the cursor is ``app_version`` or later.

    Args:
        table: the table with the result.
        inputs: the names of tables in the registry. In the query, each table is a view of the same name (templated).
        sql_file: the path of the file with the query.
        app_id: the application id of the cursor (templated).
        app_version: the new cursor, a version of the first input (templated). The version must exist, because after a
            later cursor the following runs would do nothing.
    """

    job = "aggregate"
    job_parameters = aggregate.PARAMETERS
    template_fields = (*LakehouseJobOperator.template_fields, "inputs", "app_id", "app_version")

    def __init__(
        self, *, inputs: Sequence[str], sql_file: str, app_id: str, app_version: int | str, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.sql_file = sql_file
        self.app_id = app_id
        self.app_version = app_version

    def execute(self, context: Context) -> dict[str, Any]:
        with as_task_failure():
            read_rendered(self, (_INPUTS,))
        if not self.inputs:
            raise InvalidParameterError("inputs is empty; expected the names of tables in the registry")
        return super().execute(context)

    def opened_tables(self) -> list[str]:
        return [*super().opened_tables(), *self.inputs]

    def job_values(self, hook: LakehouseHook) -> dict[str, Any]:
        from lakehouse_lib.errors import InvalidArgumentError

        if not str(self.app_version).isdecimal():
            raise InvalidParameterError(f"app_version is {self.app_version!r}; expected a table's version")
        version = int(self.app_version)
        latest = hook.version(self.inputs[0])
        if latest is not None and version > latest:
            raise InvalidArgumentError(
                f"app_version is {version}; expected at most {latest}, the version of the table {self.inputs[0]!r}",
                hint="If the value is from XCom, which users may edit, run the DAG again",
                code="DELTA_INVALID_VERSION",
            )
        return {
            "input": [(name, hook.uri(name)) for name in self.inputs],
            "sql_file": self.sql_file,
            "output": hook.uri(self.table),
            "app_id": self.app_id,
            "app_version": version,
        }
