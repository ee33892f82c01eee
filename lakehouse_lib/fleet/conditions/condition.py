"""The conditions that a sensor waits for. Each is checked at a version of the table.

If a version does not meet a condition, only a later version can meet it. So a caller lists the log in a loop, and
checks again only after a commit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.uris import location_text, scheme_prefix

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse_lib.snapshot import Snapshot


class Condition(Protocol):
    """A condition. Its fields are plain values, so that it can be sent to another process (``to_dict``)."""

    kind: ClassVar[str]

    def check(self, store: ObjectStore, version: int) -> dict[str, Any] | None:
        """The facts by which the table meets the condition, among them ``version``; None: the condition is not met.

        Args:
            version: the latest version.

        Raises:
            DeltaError: the table cannot be read, or the condition does not fit the table.
        """


@dataclass(frozen=True)
class VersionReached:
    """The table has a version after ``baseline_version`` and at least ``target_version``.

    Attributes:
        allow_recreation: accept a version below the baseline. Such a version means that the table was recreated.
    """

    kind: ClassVar[str] = "version"

    baseline_version: int | None = None
    target_version: int | None = None
    allow_recreation: bool = False

    def check(self, store: ObjectStore, version: int) -> dict[str, Any] | None:
        baseline, target = self.baseline_version, self.target_version
        if baseline is not None and version < baseline and not self.allow_recreation:
            raise InvalidArgumentError(
                f"the latest version is {version}, below the baseline {baseline}, so the table was recreated",
                table=store.root,
                hint="Set allow_recreation=True to accept its version, or give a baseline of the new table",
                code="DELTA_INVALID_VERSION",
            )
        if version == baseline or (target is not None and version < target):
            return None
        return {"version": version, "baseline_version": baseline}


@dataclass(frozen=True)
class Fresh:
    """The table has new rows: the newest of them is at most ``max_age_seconds`` old.

    Without ``column``, the age is the age of the newest commit that has changed rows. Compaction and Z-order change no
    rows. With a column, the age is the age of the column's largest value by the statistics in the log, even if a
    deletion vector has deleted the row of this value. A date begins at midnight, and times without a zone are in UTC.

    Attributes:
        column: the name of a column of type date, timestamp or timestamp_ntz; None: the newest commit counts.
    """

    kind: ClassVar[str] = "fresh"

    max_age_seconds: float
    column: str | None = None

    def check(self, store: ObjectStore, version: int) -> dict[str, Any] | None:
        from lakehouse_lib.fleet.versions import newest_change
        from lakehouse_lib.log import clock

        now = clock.now()
        since = now - int(self.max_age_seconds * 1000)
        if self.column is None:
            change = newest_change(store, version, since)
            if change is None:
                return None
            version, at = change
        else:
            snapshot = _latest(store)
            newest_value = _newest_time(snapshot, self.column)
            if newest_value is None or newest_value < since:
                return None
            version, at = snapshot.version, newest_value
        newest = datetime.fromtimestamp(at / 1000, UTC).isoformat()
        return {"version": version, "newest": newest, "age_seconds": max(0.0, (now - at) / 1000)}


@dataclass(frozen=True)
class PartitionPresent:
    """The table has a data file in a partition.

    Attributes:
        partition: column -> value as text; None: NULL. Other plain values become text. Partition columns that are left
            out may have any value.

    Raises:
        InvalidArgumentError: a value is bytes, which have no plain text.
    """

    kind: ClassVar[str] = "partition"

    partition: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, value in self.partition.items():
            if isinstance(value, bytes):
                raise InvalidArgumentError(
                    f"the value of the partition column {name!r} is {value!r}; expected text",
                    hint="Decode the bytes as UTF-8",
                    code="DELTA_INVALID_ARGUMENT",
                )
        texts = {name: None if value is None else str(value) for name, value in self.partition.items()}
        object.__setattr__(self, "partition", texts)

    def check(self, store: ObjectStore, version: int) -> dict[str, Any] | None:  # noqa: ARG002 - reads the latest
        import pyarrow as pa

        from lakehouse_lib.errors import LogCorruptedError
        from lakehouse_lib.protocol.partition_values import partition_column, to_typed

        snapshot = _latest(store)
        files = snapshot.file_columns(["partitionValues"])
        layout = snapshot.layout
        for name, text in self.partition.items():
            column = snapshot.field(name)
            if not layout.is_partition_column(column.name):
                raise InvalidArgumentError(
                    f"the column {name!r} is not a partition column; the table is partitioned by "
                    f"{', '.join(snapshot.partition_columns) or 'no column'}",
                    table=store.root,
                    version=snapshot.version,
                    hint="Name partition columns",
                    code="DELTA_INVALID_ARGUMENT",
                )
            try:
                wanted_value = to_typed(pa.array([text], pa.string()), column.type)[0]
            except LogCorruptedError:
                raise InvalidArgumentError(
                    f"{text!r} is not a value of the partition column {name!r} of type {column.type}",
                    table=store.root,
                    version=snapshot.version,
                    hint="Spell the value as the log does, for example 2026-01-31 for a date",
                    code="DELTA_INVALID_ARGUMENT",
                ) from None
            values = partition_column(files, layout.partition_key(column.name), column.type)
            files = files.filter(_equal(values, wanted_value))
        if not files.num_rows:
            return None
        return {"version": snapshot.version, "files": files.num_rows}


@dataclass(frozen=True)
class QualityPassed:
    """The last batch of a source was loaded: no file was refused, and no row was rejected.

    Attributes:
        source: the name of the source.
        quarantine: the location of the table with the rejected rows, in the same kind of store as the table, and
            spelled as the ``root`` of its store.
        allow_rejected_rows: accept a batch with rows in the quarantine.
    """

    kind: ClassVar[str] = "quality"

    source: str
    quarantine: str
    allow_rejected_rows: bool = False

    def check(self, store: ObjectStore, version: int) -> dict[str, Any] | None:
        from lakehouse_lib.fleet.conditions.load_verdict import last_verdict

        if scheme_prefix(self.quarantine) != scheme_prefix(store.root):
            raise InvalidArgumentError(
                f"the quarantine {location_text(self.quarantine)} is in another kind of store than the table; expected "
                "the same kind",
                table=store.root,
                hint="Move the quarantine to the store of the table",
                code="DELTA_INVALID_ARGUMENT",
            )
        verdict = last_verdict(store, self.source, store.open_location(self.quarantine))
        if verdict is None or not verdict.loaded or verdict.refused:
            return None
        if verdict.has_rejected_rows and not self.allow_rejected_rows:
            return None
        return {"version": version, "batch": verdict.batch, "has_rejected_rows": verdict.has_rejected_rows}


@dataclass(frozen=True)
class SmallFilesBelow:
    """The table has fewer than ``count`` small files: files below half of the target size, as its health counts them.

    Attributes:
        target_file_size: bytes; None: the target size of the table.
    """

    kind: ClassVar[str] = "small_files"

    count: int
    target_file_size: int | None = None

    def check(self, store: ObjectStore, version: int) -> dict[str, Any] | None:  # noqa: ARG002 - reads the latest
        import numpy as np

        from lakehouse_lib.arrow.values import numbers_of
        from lakehouse_lib.engine.base import is_small
        from lakehouse_lib.protocol.table_properties import TARGET_FILE_SIZE

        snapshot = _latest(store)
        target = self.target_file_size or TARGET_FILE_SIZE.of(snapshot.configuration, store.root)
        small = int(is_small(numbers_of(snapshot.file_columns(["size"])["size"], np.int64), target).sum())
        return {"version": snapshot.version, "small_files": small} if small < self.count else None


_KINDS: dict[str, type[Any]] = {
    kind.kind: kind for kind in (VersionReached, Fresh, PartitionPresent, QualityPassed, SmallFilesBelow)
}


def to_dict(condition: Condition) -> dict[str, Any]:
    """The condition as plain values for JSON."""
    return {"kind": condition.kind, **asdict(condition)}  # type: ignore[call-overload]


def condition_of(values: Mapping[str, Any]) -> Condition:
    """The condition from the values of ``to_dict``."""
    fields = dict(values)
    condition: Condition = _KINDS[fields.pop("kind")](**fields)
    return condition


def _latest(store: ObjectStore) -> Snapshot:
    from lakehouse_lib.snapshot import load_snapshot

    return load_snapshot(store)


def _equal(values: pa.Array, wanted_value: pa.Scalar) -> pa.Array:
    """A mask of the values that equal a value. NULL equals NULL, and NaN equals NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not wanted_value.is_valid:
        return pc.is_null(values)
    if pa.types.is_floating(values.type) and math.isnan(wanted_value.as_py()):
        return pc.is_nan(values)
    return pc.equal(values, wanted_value)


def _newest_time(snapshot: Snapshot, name: str) -> int | None:
    """The largest value of a column, in ms since the epoch; None: no file has a value in its statistics."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from lakehouse_lib.fleet.overlap import column_bounds
    from lakehouse_lib.protocol.partition_values import partition_column
    from lakehouse_lib.schema import PrimitiveType

    column = snapshot.field(name)
    if column.type not in (PrimitiveType("date"), PrimitiveType("timestamp"), PrimitiveType("timestamp_ntz")):
        raise InvalidArgumentError(
            f"the column {name!r} is of type {column.type}; expected date, timestamp or timestamp_ntz",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Name a column of a date or a time",
            code="DELTA_INVALID_ARGUMENT",
        )
    if snapshot.layout.is_partition_column(column.name):
        key = snapshot.layout.partition_key(column.name)
        values = partition_column(snapshot.file_columns(["partitionValues"]), key, column.type)
    else:
        values = column_bounds(snapshot, [column.name])[column.name].max
    milliseconds = values.cast(pa.timestamp("ms", getattr(values.type, "tz", None)), safe=False)
    newest: int | None = pc.max(milliseconds).value
    return newest
