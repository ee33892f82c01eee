"""The sensor that waits for a new version of a table."""

from __future__ import annotations

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

from lakehouse_airflow.failures import as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.links import TableVersionLink
from lakehouse_airflow.triggers import TableVersionTrigger, reached

if TYPE_CHECKING:
    from airflow.sdk import Context


class LakehouseTableVersionSensor(BaseSensorOperator):
    """Waits until a table has a version later than ``baseline_version`` and at least ``target_version``.

    Without both, it waits for the next version after its start. It also waits if the table does not exist. A poke lists
    the end of the log; it needs no Spark and does not open the table.

    With ``soft_fail`` the sensor skips only after its timeout. An error fails the sensor. If the store still raises an
    error at the timeout, the sensor fails, too, because it is unknown whether there is a new version.

    Returns ``{"table", "version", "baseline_version"}``.

    Args:
        table: a table's name in the registry, or its location (templated).
        baseline_version: the version after which to wait; -1: before the first version (templated).
        target_version: the version to wait for (templated).
        allow_recreation: accept a version below the baseline, which means that the table was recreated; else it fails.
        deferrable: wait in the triggerer; default ``[operators] default_deferrable``.

    Raises:
        AirflowFailException: the table was recreated without ``allow_recreation``; a version is not a number; or the
            mode is ``reschedule`` without a baseline or target, so that each poke would wait for another version.
    """

    template_fields: Sequence[str] = ("table", "baseline_version", "target_version")
    operator_extra_links = (TableVersionLink(),)
    ui_color = "#fef7e0"

    def __init__(
        self,
        *,
        table: str,
        baseline_version: int | str | None = None,
        target_version: int | str | None = None,
        allow_recreation: bool = False,
        lakehouse_conn_id: str = LakehouseHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.baseline_version = baseline_version
        self.target_version = target_version
        self.allow_recreation = allow_recreation
        self.lakehouse_conn_id = lakehouse_conn_id
        self.deferrable = deferrable
        self.made_version: tuple[str, int] | None = None

    def execute(self, context: Context) -> Any:
        self.baseline_version = _as_version("baseline_version", self.baseline_version)
        self.target_version = _as_version("target_version", self.target_version)
        if self.baseline_version is None and self.target_version is None:
            if self.reschedule:
                raise AirflowFailException("mode 'reschedule' needs a baseline_version or a target_version")
            with as_task_failure():
                now = LakehouseHook(self.lakehouse_conn_id).version(self.table)
            self.baseline_version = -1 if now is None else now
        if not self.deferrable:
            with self._skip_only_at_timeout():
                return super().execute(context)
        result = self.poke(context)
        if result.is_done:
            return result.xcom_value
        self.defer(
            trigger=TableVersionTrigger(
                table=self.table,
                lakehouse_conn_id=self.lakehouse_conn_id,
                baseline_version=self.baseline_version,
                target_version=self.target_version,
                allow_recreation=self.allow_recreation,
                poke_interval=self.poke_interval,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )
        return None

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

    @contextmanager
    def _skip_only_at_timeout(self) -> Iterator[None]:
        """Raise the cause of a skip that is not a timeout, because with ``soft_fail`` Airflow skips for any error."""
        try:
            yield
        except AirflowSkipException as skip:
            if self.soft_fail and not _is_timeout(skip):
                raise skip.__cause__ from None
            raise

    def _last_look(self, context: Context) -> PokeReturnValue:
        """Poke once more after a timeout. It raises an error of the store; the trigger would poll again instead."""
        versions = (_as_version(name, getattr(self, name)) for name in ("baseline_version", "target_version"))
        if all(version is None for version in versions):
            with as_task_failure():
                LakehouseHook(self.lakehouse_conn_id).version(self.table)
            return PokeReturnValue(False)  # only the trigger had the baseline
        return self.poke(context)

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        with as_task_failure():
            version = LakehouseHook(self.lakehouse_conn_id).version(self.table)
        baseline = _as_version("baseline_version", self.baseline_version)
        try:
            done = reached(
                version,
                baseline_version=baseline,
                target_version=_as_version("target_version", self.target_version),
                allow_recreation=self.allow_recreation,
            )
        except ValueError as error:
            raise AirflowFailException(f"table {self.table}: {error}") from None
        if not done or version is None:
            return PokeReturnValue(False)
        return PokeReturnValue(True, self._xcom_value(version, baseline))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        if "error" in event:
            raise AirflowFailException(event["error"])
        return self._xcom_value(event["version"], event["baseline_version"])

    def _xcom_value(self, version: int, baseline_version: int | None) -> dict[str, Any]:
        self.made_version = (self.table, version)
        return {"table": self.table, "version": version, "baseline_version": baseline_version}


def _is_timeout(skip: AirflowSkipException) -> bool:
    return skip.__cause__ is None or isinstance(skip.__cause__, AirflowSensorTimeout | AirflowTaskTimeout)


def _as_version(name: str, value: Any) -> int | None:
    if value in (None, "", "None"):  # a template without a value renders as text
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise AirflowFailException(f"{name} is {value!r}; expected a table's version") from None
