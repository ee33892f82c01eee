"""The base class of the sensors that wait for a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    conf,
)
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from lakehouse_airflow.errors import as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.links import TableVersionLink
from lakehouse_airflow.triggers import TableTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.fleet.conditions import Condition


class LakehouseTableSensor(BaseSensorOperator):
    """Waits until a table exists and meets a condition.

    A poke lists the end of the log and checks the condition. The triggerer checks the condition only after a new
    version.

    With ``soft_fail``, the sensor is skipped only after its timeout. An error fails the sensor. If the store still
    raises an error at the timeout, the sensor fails, too, because it is unknown whether the table meets the condition.

    Returns the table, the version, and the values by which the version meets the condition.

    Args:
        table: a table's name in the registry, or its location (templated).
        lakehouse_conn_id: as the argument of ``LakehouseHook`` (templated).
        deferrable: wait in the triggerer; default: ``default_deferrable`` in the section ``[operators]`` of
            airflow.cfg.

    Raises:
        AirflowFailException: the condition does not fit the table.
    """

    template_fields: Sequence[str] = ("table", "lakehouse_conn_id")
    operator_extra_links = (TableVersionLink(),)
    ui_color = "#fef7e0"

    def __init__(
        self,
        *,
        table: str,
        lakehouse_conn_id: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.lakehouse_conn_id = lakehouse_conn_id
        self.deferrable = deferrable
        self.result_version: tuple[str, int] | None = None

    @abstractmethod
    def condition(self) -> Condition:
        """The condition, made from the rendered arguments.

        Raises:
            AirflowFailException: an argument is not valid.
        """

    def execute(self, context: Context) -> Any:
        with as_task_failure():
            condition = self.condition()
        if not self.deferrable:
            with self._skip_only_at_timeout():
                return super().execute(context)
        result = self.poke(context)
        if result.is_done:
            return result.xcom_value
        from lakehouse_lib.fleet.conditions import to_dict

        self.defer(
            trigger=TableTrigger(
                table=self.table,
                condition=to_dict(condition),
                poke_interval=self.poke_interval,
                lakehouse_conn_id=self.lakehouse_conn_id,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )
        return None

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        from lakehouse_lib.fleet.versions import latest_version

        with as_task_failure():
            store = LakehouseHook(self.lakehouse_conn_id).store(self.table)
            version = latest_version(store)
            facts = None if version is None else self.condition().check(store, version)
        return PokeReturnValue(facts is not None, None if facts is None else self._xcom_value(facts))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        if "error" in event:
            raise AirflowFailException(event["error"])
        return self._xcom_value(event)

    def resume_execution(self, next_method: str, next_kwargs: Mapping[str, Any] | None, context: Context) -> Any:
        with self._skip_only_at_timeout():
            try:
                return super().resume_execution(next_method, next_kwargs, context)
            except AirflowSkipException as skip:
                if not _is_timeout(skip) or not self.soft_fail:
                    raise
                result = self._last_look(context)
                if not result.is_done:
                    raise
                return result.xcom_value

    def _last_look(self, context: Context) -> PokeReturnValue:
        """Poke once more after a timeout. Errors of the store are raised here, but the trigger would poll again."""
        return self.poke(context)

    @contextmanager
    def _skip_only_at_timeout(self) -> Iterator[None]:
        """Raise the error behind a skip, except after a timeout. With ``soft_fail``, Airflow skips after any error."""
        try:
            yield
        except AirflowSkipException as skip:
            if self.soft_fail and not _is_timeout(skip):
                raise skip.__cause__ from None
            raise

    def _xcom_value(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        self.result_version = (self.table, facts["version"])
        return {"table": self.table, **facts}


def _is_timeout(skip: AirflowSkipException) -> bool:
    return skip.__cause__ is None or isinstance(skip.__cause__, AirflowSensorTimeout | AirflowTaskTimeout)
