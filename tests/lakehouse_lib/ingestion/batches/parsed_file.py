"""The rows of one landed file that a task has staged, and those that it has rejected."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.engine.parquet.task_results import results_of
from lakehouse_lib.ingestion.append import plan_append
from lakehouse_lib.ingestion.landing import open_landing
from lakehouse_lib.ingestion.quarantine import quarantine_schema
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.file_task import FileTask, TaskResult, discard_results, load_files
from lakehouse_lib.ingestion.tasks.parse import Parser
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import open_store
from tests.landed_files import fingerprint

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("price", pa.decimal128(15, 2)), pa.field("note", pa.string())]
)
CSV, JSON, PARQUET = SourceFormat("csv"), SourceFormat("json"), SourceFormat("parquet")


def run(task: FileTask) -> TaskResult:
    (result,) = results_of(load_files(task), lambda results: discard_results(task, results))
    assert isinstance(result, TaskResult)
    return result


def _read(path: Path) -> list[dict[str, Any]]:
    return pq.ParquetFile(path).read().to_pylist()


class Parsed:
    """The result of one file: its staged rows and its rejected rows."""

    def __init__(
        self,
        folder: Path,
        name: str,
        content: bytes,
        source_format: SourceFormat,
        schema: pa.Schema = SCHEMA,
        threads: int = 1,
    ) -> None:
        landing = folder / "landing"
        landing.mkdir(exist_ok=True)
        (landing / name).write_bytes(content)
        file = fingerprint(landing, name)
        store = open_store(folder / "table")
        quarantine = plan_append(open_store(folder / "quarantine"), Schema.from_arrow(quarantine_schema(schema)))
        task = FileTask(
            open_landing(landing),
            (file,),
            "erp",
            4,
            Parser(source_format, schema, (), store.limits),
            plan_append(store, Schema.from_arrow(schema)).target,
            quarantine.target,
            threads,
            "_ingest/erp/staging/x",
            judged_by_spark=True,
        )
        self.task: FileTask = pickle.loads(pickle.dumps(task))
        self.result = run(self.task)
        self.rows = _read(folder / "table" / self.result.staged) if self.result.staged else []
        paths = self.result.quarantined["path"].to_pylist()
        self.rejected = [row for path in paths for row in _read(folder / "quarantine" / path)]
        (landing / name).unlink()

    @property
    def refused(self) -> str:
        assert not self.rows
        assert not self.rejected
        (reason,) = self.result.refused.values()
        return reason

    def reasons(self) -> list[tuple[int, str | None, str]]:
        return sorted((row["_line"], row["_column"], row["_reason"]) for row in self.rejected)
