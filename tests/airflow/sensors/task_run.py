"""A task's view of its run, and what it publishes there."""

from typing import Any

from lakehouse_airflow.operators.asset_events import LakehousePublishOperator


class Run:
    """A task's view of its run, and its outputs; ``context()`` is the context of ``execute``."""

    def __init__(self, try_number: int = 1, max_tries: int = 0) -> None:
        self.try_number = try_number
        self.max_tries = max_tries
        self.events: list[dict[str, Any]] = []
        self.pushed: dict[str, Any] = {}

    def context(self) -> Any:
        return {"ti": self, "outlet_events": self}

    def __getitem__(self, alias: object) -> "Run":
        return self

    def add(self, asset: object, extra: dict[str, Any]) -> None:
        self.events.append(extra)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def publish(run: Run, **versions: int | str | None) -> dict[str, list[int]]:
    return LakehousePublishOperator(task_id="publish", versions=versions).execute(run.context())
