"""The sensor that waits for a new version of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import PokeReturnValue

from lakehouse_airflow.errors import InvalidParameterError, as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.sensors.base import LakehouseTableSensor
from lakehouse_airflow.sensors.values import whole_number

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lakehouse_lib.fleet.conditions import VersionReached


class LakehouseTableVersionSensor(LakehouseTableSensor):
    """Waits until a table has a version later than ``baseline_version`` and at least ``target_version``.

    Without both arguments, the sensor waits for the next version after its start. A poke only lists the log.

    Returns ``{"table", "version", "baseline_version"}``.

    Args:
        baseline_version: the version after which to wait; -1: before the first version (templated).
        target_version: the version to wait for (templated).
        allow_recreation: accept a version below the baseline, which means that the table was recreated. False: fail.

    Raises:
        AirflowFailException: the table was recreated without ``allow_recreation``; a version is not a number; or the
            mode is ``reschedule`` without a baseline or target, because each poke would start at another version.
    """

    template_fields: Sequence[str] = (*LakehouseTableSensor.template_fields, "baseline_version", "target_version")

    def __init__(
        self,
        *,
        baseline_version: int | str | None = None,
        target_version: int | str | None = None,
        allow_recreation: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.baseline_version = baseline_version
        self.target_version = target_version
        self.allow_recreation = allow_recreation

    def condition(self) -> VersionReached:
        from lakehouse_lib.fleet.conditions import VersionReached

        return VersionReached(*self._versions(), allow_recreation=self.allow_recreation)

    def execute(self, context: Context) -> Any:
        if self._versions() == (None, None):
            if self.reschedule:
                raise InvalidParameterError("mode 'reschedule' needs a baseline_version or a target_version")
            latest = self._latest_version()
            self.baseline_version = -1 if latest is None else latest
        return super().execute(context)

    def _last_look(self, context: Context) -> PokeReturnValue:
        if self._versions() == (None, None):  # the baseline was only in the trigger
            self._latest_version()
            return PokeReturnValue(False)
        return super()._last_look(context)

    def _latest_version(self) -> int | None:
        with as_task_failure():
            return LakehouseHook(self.lakehouse_conn_id).version(self.table)

    def _versions(self) -> tuple[int | None, int | None]:
        return (
            whole_number("baseline_version", self.baseline_version, -1, "a table's version"),
            whole_number("target_version", self.target_version, 0, "a table's version"),
        )
