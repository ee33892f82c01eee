"""A step of maintenance: one verb on one table, with its predicted effect and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.arrow.values import int64s
from lakehouse_lib.fleet.planner.verbs import Verb
from lakehouse_lib.operations.inspect.detail import distinct_rows

#: The bytes that a reader scans in the time that it needs to open a file (Spark: ``spark.sql.files.openCostInBytes``).
OPEN_BYTES = 4 * 2**20
#: The gain of a freed byte, as a share of the gain of a byte that queries no longer read.
_FREED_SHARE = 0.1
#: The partitions that a step names.
_NAMED = 3


@dataclass(frozen=True)
class Effect:
    """The effect of a step, predicted from the log or measured afterwards. Sizes are in bytes.

    Attributes:
        files_removed, files_added: the number of data files; for ``checkpoint`` and ``cleanup``, of log files.
            ``vacuum`` and ``cleanup`` delete files, the other verbs only remove them from the latest version.
        bytes_read, bytes_written: the bytes that the step reads and writes.
        bytes_freed: the size of the files that the step deletes.
        query_bytes: the bytes that a query no longer reads. Each file that it no longer opens counts as ``OPEN_BYTES``.
            A query reads one value of a Z-order column, or scans a table without such columns.
        seconds: the duration.
    """

    files_removed: int = 0
    files_added: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0
    query_bytes: int = 0
    seconds: float = 0.0

    @property
    def gain(self) -> float:
        """Bytes that a query no longer reads, with a share of the freed bytes."""
        return self.query_bytes + _FREED_SHARE * self.bytes_freed

    def scaled(self, factors: Mapping[str, float]) -> Effect:
        """The effect with its numbers multiplied by these factors, by name."""
        changed = {
            name: type(value)(value * factors[name]) for name, value in self.to_dict().items() if name in factors
        }
        return replace(self, **changed)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, float]:
        """Every number by its name."""
        return asdict(self)


@dataclass(frozen=True)
class Partitions:
    """The partitions that a step rewrites.

    Attributes:
        count: the number of partitions.
        first: the values of the first partitions by column, as in the log, at most three.
    """

    count: int
    first: tuple[Mapping[str, str | None], ...]

    @property
    def text(self) -> str:
        """The partitions in words, such as "2 partitions: day=1, day=2"."""
        names = ["/".join(f"{key}={value}" for key, value in values.items()) for values in self.first]
        more = f" and {self.count - len(names):,} more" if self.count > len(names) else ""
        return f"{self.count:,} partition{'' if self.count == 1 else 's'}: {', '.join(names)}{more}"


@dataclass(frozen=True)
class Parts:
    """The independent parts of a rewrite, such as bins or partitions. Each array has an entry for each part.

    Attributes:
        oldest: the modification time of the oldest file, ms since the epoch.
        values: a column for each partition column, as texts; None: the table is not partitioned.
    """

    files_removed: NDArray[np.int64]
    files_added: NDArray[np.int64]
    bytes_read: NDArray[np.int64]
    bytes_written: NDArray[np.int64]
    query_bytes: NDArray[np.int64]
    oldest: NDArray[np.int64]
    values: pa.Table | None = None

    def effect(self, rows: NDArray[np.int64] | None = None) -> Effect:
        """The sum of the parts with these numbers; None: the sum of all parts."""
        names = ("files_removed", "files_added", "bytes_read", "bytes_written", "query_bytes")
        return Effect(**{name: int(getattr(self, name)[... if rows is None else rows].sum()) for name in names})

    def partitions(self, rows: NDArray[np.int64] | None = None) -> Partitions | None:
        """The partitions of the parts with these numbers, None: of all parts. The result is None without partitions."""
        if self.values is None:
            return None
        distinct = distinct_rows(self.values if rows is None else self.values.take(int64s(rows)))
        return Partitions(len(distinct), tuple(distinct.slice(0, _NAMED).to_pylist()))


@dataclass(frozen=True)
class Step:
    """A step of maintenance.

    Attributes:
        table: the table's name in the registry, or its location.
        verb: the name of the verb.
        read_version: the version from which the step was planned.
        arguments: the arguments of the verb, as plain values.
        reason: why the step is needed, as a sentence with figures.
        predicted: the predicted effect, corrected by earlier runs.
        uncorrected: the predicted effect without corrections; None: ``predicted`` is not corrected yet.
        requests: the number of requests to the store, except for rewritten files: listings, deletions, footers.
        parts: the parts that a budget may choose from; None: the step is run as a whole.
        partitions: the partitions that the step rewrites; None: the table is not partitioned, or no file is rewritten.
        is_overdue: whether the step is planned even if it does not pay.
    """

    table: str
    verb: Verb
    read_version: int
    arguments: Mapping[str, Any]
    reason: str
    predicted: Effect
    requests: int = 0
    uncorrected: Effect | None = None
    parts: Parts | None = field(default=None, repr=False, compare=False)
    is_overdue: bool = False
    partitions: Partitions | None = None

    @property
    def cost(self) -> int:
        """The bytes that the step reads and writes. Each rewritten file and each request counts as ``OPEN_BYTES``."""
        rewritten = self.predicted.files_removed + self.predicted.files_added if self.predicted.bytes_read else 0
        return self.bytes + (rewritten + self.requests) * OPEN_BYTES

    @property
    def bytes(self) -> int:
        """The bytes that the step reads and writes. A budget limits this number."""
        return self.predicted.bytes_read + self.predicted.bytes_written

    @property
    def payback(self) -> float:
        """The number of queries after which the gain of the step is as large as its cost."""
        gain = self.predicted.gain
        return self.cost / gain if gain > 0 else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "table": self.table,
            "verb": self.verb,
            "read_version": self.read_version,
            "arguments": dict(self.arguments),
            "partitions": None if self.partitions is None else asdict(self.partitions),
            "reason": self.reason,
            "predicted": self.predicted.to_dict(),
            "cost": self.cost,
            "payback": self.payback,
        }
