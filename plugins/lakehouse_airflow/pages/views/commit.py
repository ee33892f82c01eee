"""A commit as the pages show it, made from the commitInfo of any writer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse_airflow.pages.views.texts import bytes_text, count_text, counted_text, duration_text, time_text

_TASK_KEYS = ("dag_id", "run_id", "task_id")
_TIMES = ("timestamp", "inCommitTimestamp")


@dataclass(frozen=True)
class Task:
    """The task of Airflow that has made a commit.

    Attributes:
        map_index: -1: the task is not mapped.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int | None


@dataclass(frozen=True)
class Commit:
    """A commit.

    Attributes:
        committed_at: ms since the epoch.
        user, engine: ``userName`` and ``engineInfo``.
        summary: the main metrics as text, such as ``3 rows written, 1 file added``.
        pins: the names of the pins of the version.
    """

    version: int
    committed_at: int | None
    operation: str
    user: str | None
    engine: str | None
    task: Task | None
    summary: str
    pins: tuple[str, ...] = ()


def commit_of(info: Mapping[str, Any]) -> Commit:
    """The commit of an entry of ``DeltaTable.history()``."""
    committed_at = info.get("timestamp")
    return Commit(
        version=info["version"],
        committed_at=committed_at if isinstance(committed_at, int) else None,
        operation=_text(info.get("operation")) or "unknown operation",
        user=_text(info.get("userName")),
        engine=_text(info.get("engineInfo")),
        task=task_of(info),
        summary=_summary(info.get("operationMetrics")),
        pins=tuple(str(name) for name in info.get("pins", ())),
    )


def task_of(info: Mapping[str, Any]) -> Task | None:
    """The task in a commitInfo; None if the DAG id, the run id or the task id is missing."""
    names = info.get("airflow")
    if not isinstance(names, Mapping) or any(not _text(names.get(key)) for key in _TASK_KEYS):
        return None
    map_index, try_number = names.get("map_index"), names.get("try_number")
    return Task(
        *(names[key] for key in _TASK_KEYS),
        map_index=map_index if isinstance(map_index, int) else -1,
        try_number=try_number if isinstance(try_number, int) else None,
    )


def fields_of(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The fields of a commitInfo as names and texts, with units. A nested field has the name ``field.field``."""
    return list(_fields("", info))


def _fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _fields(f"{name}.{key}" if name else str(key), item)
    elif value is not None:
        yield name, _field_text(name.rpartition(".")[2], value)


def _field_text(name: str, value: Any) -> str:
    number = _number(value)
    if number is not None and name in _TIMES:
        return time_text(number)
    if number is not None and name.endswith(("Ms", "_ms")):
        return duration_text(number / 1000)
    if number is not None and name.endswith(("Bytes", "_bytes", "FileSize", "FilesSize")):
        return bytes_text(number)
    if number is not None and name.startswith("num"):
        return count_text(number)
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else value
    return json.dumps(value, ensure_ascii=False, default=str)


#: Metrics with their words: first those of delta-spark and of this library, then those of delta-rs.
_METRICS = (
    ("numOutputRows", "row written"),
    ("numTargetRowsInserted", "row inserted"),
    ("numUpdatedRows", "row updated"),
    ("numTargetRowsUpdated", "row updated"),
    ("numDeletedRows", "row deleted"),
    ("numTargetRowsDeleted", "row deleted"),
    ("numFiles", "file added"),
    ("numAddedFiles", "file added"),
    ("numRemovedFiles", "file removed"),
    ("numDeletedFiles", "file deleted"),
    ("num_added_rows", "row written"),
    ("num_updated_rows", "row updated"),
    ("num_deleted_rows", "row deleted"),
    ("num_added_files", "file added"),
    ("num_removed_files", "file removed"),
)


def _summary(metrics: Any) -> str:
    if not isinstance(metrics, Mapping):
        return ""
    numbers = [(_number(metrics.get(name)), *words.split()) for name, words in _METRICS]
    return ", ".join(f"{counted_text(number, noun)} {verb}" for number, noun, verb in numbers if number and number > 0)


def _number(value: Any) -> int | None:
    """A whole number, which some writers write as text; None for any other value."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
