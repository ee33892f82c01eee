"""Operations of writers that share a table, and the ledger that each writer keeps.

A ledger has a line before each operation and a line after it, which survive ``kill -9``. This module needs only
pyarrow, because delta-spark's environment runs it too.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

ROWS = 10  # rows of an append
SLOTS = 1000  # values of the column in the condition of deletes
WIDTH = 30  # slots of a delete
_NUMBERS = 1_000_000  # rows that a writer may write, at most

SCHEMA = pa.schema([("id", pa.int64()), ("slot", pa.int64())])


class Operation(NamedTuple):
    """One operation of a writer.

    Attributes:
        name: unique among all writers.
        kind: "append", "delete" or "compact".
        first: the first id of an append, else 0.
        slot: the first slot; an append's rows have the next ``ROWS`` slots, a delete covers the next ``WIDTH``.
    """

    name: str
    kind: str
    first: int = 0
    slot: int = 0

    @property
    def rows(self) -> pa.Table:
        """The rows of an append."""
        ids, slots = range(self.first, self.first + ROWS), range(self.slot, self.slot + ROWS)
        return pa.table([list(ids), list(slots)], schema=SCHEMA)

    @property
    def condition(self) -> str:
        """The rows that a delete removes."""
        return f"slot >= {self.slot} AND slot < {self.slot + WIDTH}"


def operations(writer: int, seed: int, *, deletes: float = 0.15, compactions: float = 0.05) -> Iterator[Operation]:
    """The operations of a writer, without end; ``deletes`` and ``compactions`` are shares."""
    chance = random.Random(f"{seed}/{writer}")
    for number in range(_NUMBERS // ROWS):
        name, kind = f"{writer}-{number}", chance.random()
        slot = chance.randrange(SLOTS - WIDTH)
        if number and kind < compactions:
            yield Operation(name, "compact")
        elif number and kind < compactions + deletes:
            yield Operation(name, "delete", 0, slot)
        else:
            yield Operation(name, "append", writer * _NUMBERS + number * ROWS, slot)


class Ledger:
    """A writer's own file. Each line is one write to the kernel, so it survives the process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def begin(self, operation: Operation) -> None:
        self._write({"begin": operation})

    def acknowledge(self, operation: Operation, version: int | None) -> None:
        """Record that the operation was committed, and the version if it is known."""
        self._write({"done": operation.name, "version": version})

    def idle(self, operation: Operation) -> None:
        """Record that there was nothing to do and nothing was committed."""
        self._write({"idle": operation.name})

    def refuse(self, operation: Operation, error: BaseException) -> None:
        """Record a refusal: nothing was committed."""
        self._write({"refused": operation.name, "error": f"{type(error).__name__}: {error}"[:300]})

    def fail(self, operation: Operation, error: BaseException) -> None:
        """Record a failure after which the outcome is unknown."""
        self._write({"failed": operation.name, "error": f"{type(error).__name__}: {error}"[:300]})

    def _write(self, body: Mapping[str, Any]) -> None:
        os.write(self._file, (json.dumps(body) + "\n").encode())
