"""The catalogue of table properties (``delta.*``): name, default and valid values of each (delta-spark's DeltaConfigs).

A property that this library only passes on has no default. Which feature a property enables, the feature says
(``lakehouse_lib/features``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar, get_args

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.property_values import boolean, choice, column_names, interval, size, whole_number
from lakehouse_lib.schema.column_mapping import Mode

T = TypeVar("T")

#: Who sets a property of a table that is there: no verb of this library does.
SET_BY = "delta-spark's ALTER TABLE ... SET TBLPROPERTIES, or deltalake's alter.set_table_properties"


class IsolationLevel(StrEnum):
    """Which concurrent commits a transaction has to fear, from the strictest level to the least (delta-spark's).

    SERIALIZABLE: the log's order is a serial one, for writes and reads.
    WRITE_SERIALIZABLE: some serial order of the writes exists; a blind append may stand in the log before a commit that
        would have had to see its rows.
    SNAPSHOT_ISOLATION: what others add does not count; for commits that change no row, never for a whole table.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT_ISOLATION = "SnapshotIsolation"


@dataclass(frozen=True)
class TableProperty(Generic[T]):
    """A property that a table can have, and how its text reads.

    Attributes:
        key: its name in the log.
        default: the value of a table that does not set it.
        parse: the value of a text; ValueError for a text that is not valid.
        expected: what a valid text is, as errors say it.
        spelling: the text that the log gets for a value; None: as the user writes it.
        harmless: a transaction may commit after a concurrent change of it, which changes neither what rows there may be
            nor how files are written.
        settable: users may set it; the others are written by engines alone.
    """

    key: str
    default: T
    parse: Callable[[str], T]
    expected: str
    spelling: Callable[[T], str] | None = None
    harmless: bool = False
    settable: bool = True

    def of(self, configuration: Mapping[str, str], table: str | None = None) -> T:
        """The value that a table with these properties has.

        Raises:
            InvalidArgumentError: its text is not valid; a guess could lose data.
        """
        text = configuration.get(self.key)
        return self.default if text is None else self.value(text, table)

    def value(self, text: str, table: str | None = None) -> T:
        """The value of a text; InvalidArgumentError as above."""
        try:
            return self.parse(text)
        except ValueError as error:
            raise InvalidArgumentError(
                f"{self.key} = {excerpt(text)} is not valid; expected {self.expected}",
                table=table,
                hint=f"Set it to a valid value: of a table that is there, by {SET_BY}",
                code="DELTA_INVALID_TABLE_PROPERTY",
            ) from error

    def spell(self, text: str, table: str | None = None) -> str:
        """A text as the log gets it; InvalidArgumentError as above."""
        value = self.value(text, table)
        return text if self.spelling is None else self.spelling(value)


class Switch(TableProperty[bool]):
    """A property that is on or off."""

    def is_on(self, configuration: Mapping[str, str]) -> bool:
        """Whether a table with these properties has it on; a text that is not valid counts as off, as in delta-rs."""
        text = configuration.get(self.key)
        return self.default if text is None else text.strip().lower() == "true"


def _switch(key: str, *, default: bool = False, harmless: bool = False) -> Switch:
    return Switch(key, default, boolean, '"true" or "false"', lambda on: str(on).lower(), harmless)


def _isolation_level(text: str) -> IsolationLevel:
    for level in (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE):
        if text.strip().lower() == level.lower():
            return level
    raise ValueError(text)


def _mapping_mode(text: str) -> Mode:
    modes: tuple[Mode, ...] = get_args(Mode)
    for mode in modes:
        if text.strip().lower() == mode:
            return mode
    raise ValueError(text)


_INTERVAL = "an interval such as 'interval 7 days' or '168 hours', below a billion days"
#: delta-spark keeps whole numbers in 32 bits.
_MOST = 2**31 - 1
#: What ``delta.parquet.compression.codec`` may say, in any case.
COMPRESSION_CODECS = ("uncompressed", "none", "snappy", "gzip", "zstd", "lz4", "lz4_raw", "brotli")

# What rows there may be, and how they are written.
APPEND_ONLY = _switch("delta.appendOnly")
CHANGE_DATA_FEED = _switch("delta.enableChangeDataFeed")
DELETION_VECTORS = _switch("delta.enableDeletionVectors")
ISOLATION_LEVEL = TableProperty(
    "delta.isolationLevel", IsolationLevel.SERIALIZABLE, _isolation_level, "Serializable or WriteSerializable", str
)
COLUMN_MAPPING_MODE: TableProperty[Mode] = TableProperty(
    "delta.columnMapping.mode", "none", _mapping_mode, "none, name or id"
)
MAX_COLUMN_ID = TableProperty(
    "delta.columnMapping.maxColumnId", None, whole_number(0), "a whole number", settable=False
)
TYPE_WIDENING = _switch("delta.enableTypeWidening")
VARIANT_SHREDDING = _switch("delta.enableVariantShredding")
ICEBERG_COMPAT_V1 = _switch("delta.enableIcebergCompatV1")
ICEBERG_COMPAT_V2 = _switch("delta.enableIcebergCompatV2")
ICEBERG_COMPAT_V3 = _switch("delta.enableIcebergCompatV3")
ICEBERG_WRITER_COMPAT_V1 = _switch("delta.enableIcebergWriterCompatV1")
ICEBERG_WRITER_COMPAT_V3 = _switch("delta.enableIcebergWriterCompatV3")
NUM_INDEXED_COLUMNS = TableProperty(
    "delta.dataSkippingNumIndexedCols", 32, whole_number(-1), "a number of columns, or -1 for all"
)
STATS_COLUMNS = TableProperty(
    "delta.dataSkippingStatsColumns",
    None,
    column_names,
    "column names with commas between them, in backticks where a name needs it",
)
COMPRESSION_CODEC = TableProperty(
    "delta.parquet.compression.codec",
    "snappy",
    lambda text: choice(*COMPRESSION_CODECS)(text.lower()),
    f"one of {', '.join(COMPRESSION_CODECS)}",
)
TARGET_FILE_SIZE = TableProperty(
    "delta.targetFileSize", 100 << 20, size, "1 byte or more, or a size such as 100mb", harmless=True
)

# Ids of rows.
ROW_TRACKING = _switch("delta.enableRowTracking")
ROW_TRACKING_SUSPENDED = _switch("delta.rowTrackingSuspended")
ROW_ID_COLUMN = TableProperty(
    "delta.rowTracking.materializedRowIdColumnName", None, str, "a column name", settable=False
)
ROW_COMMIT_VERSION_COLUMN = TableProperty(
    "delta.rowTracking.materializedRowCommitVersionColumnName", None, str, "a column name", settable=False
)

# The time inside of commits: a commit that has not seen these change is right as soon as it has its own time.
IN_COMMIT_TIMESTAMPS = _switch("delta.enableInCommitTimestamps", harmless=True)
IN_COMMIT_TIMESTAMP_VERSION = TableProperty(
    "delta.inCommitTimestampEnablementVersion", None, whole_number(0), "a version", harmless=True, settable=False
)
IN_COMMIT_TIMESTAMP_TIME = TableProperty(
    "delta.inCommitTimestampEnablementTimestamp",
    None,
    whole_number(0),
    "milliseconds since the epoch",
    harmless=True,
    settable=False,
)

# The log and its upkeep.
CHECKPOINT_INTERVAL = TableProperty(
    "delta.checkpointInterval", 10, whole_number(1, _MOST), f"a whole number from 1 to {_MOST}", harmless=True
)
CHECKPOINT_POLICY = TableProperty("delta.checkpointPolicy", "classic", choice("classic", "v2"), "classic or v2")
CHECKPOINT_PROTECTION = TableProperty(
    "delta.requireCheckpointProtectionBeforeVersion", 0, whole_number(0), "a version", settable=False
)
LOG_RETENTION = TableProperty("delta.logRetentionDuration", timedelta(days=30), interval, _INTERVAL, harmless=True)
EXPIRED_LOG_CLEANUP = _switch("delta.enableExpiredLogCleanup", default=True, harmless=True)
DELETED_FILE_RETENTION = TableProperty(
    "delta.deletedFileRetentionDuration", timedelta(weeks=1), interval, _INTERVAL, harmless=True
)

# Of other engines; this library passes them on.
_PASSED_ON: tuple[TableProperty[Any], ...] = (
    TableProperty("delta.autoOptimize.autoCompact", None, choice("true", "false", "auto"), "true, false or auto"),
    _switch("delta.autoOptimize.optimizeWrite"),
    _switch("delta.checkpoint.writeStatsAsJson"),
    _switch("delta.checkpoint.writeStatsAsStruct"),
    TableProperty("delta.checkpointRetentionDuration", None, interval, _INTERVAL, harmless=True),
    TableProperty("delta.dataSkippingStringPrefixLength", None, whole_number(0, _MOST), "a number of characters"),
    TableProperty("delta.dropFeatureTruncateHistory.retentionDuration", None, interval, _INTERVAL),
    _switch("delta.enableFullRetentionRollback"),
    TableProperty("delta.randomPrefixLength", None, whole_number(1, _MOST), f"a whole number from 1 to {_MOST}"),
    _switch("delta.randomizeFilePrefixes"),
    TableProperty("delta.sampleRetentionDuration", None, interval, _INTERVAL),
    TableProperty("delta.setTransactionRetentionDuration", None, interval, _INTERVAL, harmless=True),
    _switch("delta.tuneFileSizesForRewrites", harmless=True),
)

#: Every property that has a name here, by its key.
PROPERTIES: Mapping[str, TableProperty[Any]] = {
    entry.key: entry
    for entry in (*(value for value in tuple(globals().values()) if isinstance(value, TableProperty)), *_PASSED_ON)
}


def log_retention(configuration: Mapping[str, str], table: str | None = None) -> timedelta | None:
    """How long versions stay in the log; None: for ever, because it is not cleaned up.

    Raises:
        InvalidArgumentError: ``delta.logRetentionDuration`` is not valid.
    """
    retention = LOG_RETENTION.of(configuration, table)
    return retention if EXPIRED_LOG_CLEANUP.is_on(configuration) else None


def target_file_size(configuration: Mapping[str, str], override: int | None = None, *, table: str | None = None) -> int:
    """Bytes of a data file: ``override``, else the table's; InvalidArgumentError: not a positive size."""
    if override is None:
        return TARGET_FILE_SIZE.of(configuration, table)
    return TARGET_FILE_SIZE.value(str(override), table)
