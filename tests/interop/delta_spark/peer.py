"""delta-spark in a separate process, which answers SQL and reads tables."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.delta_spark.expected import Written, rows_of, written_table

PEERS = Path(".peers").resolve()


class SparkRefusal(Exception):
    """An error of delta-spark.

    Attributes:
        reason: its text.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Peer:
    """delta-spark in a separate process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """The rows of a statement."""
        answer: list[dict[str, Any]] = self._ask(statement)
        return answer

    def rows(self, query: str) -> pa.Table:
        """The rows of a query, plain and sorted."""
        with tempfile.TemporaryDirectory() as folder:
            return rows_of(Path(folder) / self._ask({"query": query, "folder": folder}))

    def changes(self, root: Path, start: int) -> pa.Table:
        """The change data feed of a table from a version on, plain and sorted."""
        return self.rows(f"SELECT * FROM table_changes_by_path('{root}', {start})")

    def record(self, folder: Path, name: str) -> Written:
        """Read every version of the table ``folder/tables/NAME``, as ``write.py`` does after it has written a table."""
        self._ask({"table": str(folder / "tables" / name), "expected": str(folder / "expected" / name)})
        return written_table(folder, name)

    def _ask(self, request: object) -> Any:
        """Send a request and wait for the answer; raises SparkRefusal with the text of an error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("answer: "):
                answer = json.loads(line.removeprefix("answer: "))
                if isinstance(answer, dict):
                    raise SparkRefusal(f"{request}: {answer['error']}", answer["error"])
                return answer
        raise AssertionError(f"delta-spark died over {request}")

    def ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in self.sql(f"SELECT id FROM {table}"))

    def times(self, table: str) -> list[int]:
        return [row["timestamp"] for row in self.sql(f"DESCRIBE HISTORY {table}")]

    def row_ids(self, table: str) -> dict[int, tuple[int, int]]:
        """The row id and the row commit version of each row, by its id."""
        columns = "id, _metadata.row_id AS row, _metadata.row_commit_version AS version"
        answer = self.sql(f"SELECT {columns} FROM {table}")
        return {row["id"]: (row["row"], row["version"]) for row in answer}


@contextmanager
def delta_spark() -> Iterator[Peer]:
    """A process that ends with the block."""
    command = [PEERS / "delta-spark/bin/python", Path(__file__).with_name("answer.py"), PEERS / "delta-spark-tables"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield Peer(process)
        assert process.stdin is not None
        process.stdin.close()
