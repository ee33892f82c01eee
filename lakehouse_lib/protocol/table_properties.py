"""The catalogue of table properties (``delta.*``): name, default and valid values of each (delta-spark's DeltaConfigs).

This library keeps some properties but does not use them. Their default is None or false, which has no meaning. Features
declare the properties that enable them (``lakehouse_lib/features``).
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

#: How to set a property of an existing table, for errors.
SET_BY = "DeltaTable.alter.set_table_properties"


@dataclass(frozen=True)
class TableProperty(Generic[T]):
    """A table property, and the parser of its text.

    Attributes:
        key: its name in the log.
        default: the value for a table that does not set it.
        parse: returns the value of a text; ValueError for a text that is not valid.
        expected: a description of valid texts, for errors.
        spelling: returns the text in the log for a value; None: the log has the text as the user wrote it.
        harmless: whether a transaction may commit after a concurrent change of the property, because the property
            affects neither which rows are valid nor how files are written.
        settable: whether users may set the property; if not, only engines write it.
    """

    key: str
    default: T
    parse: Callable[[str], T]
    expected: str
    spelling: Callable[[T], str] | None = None
    harmless: bool = False
    settable: bool = True

    def of(self, configuration: Mapping[str, str], table: str | None = None) -> T:
        """The value for a table with these properties.

        Raises:
            InvalidArgumentError: its text is not valid. The default is not used instead, because this could lose data.
        """
        text = configuration.get(self.key)
        return self.default if text is None else self.value(text, table)

    def value(self, text: str, table: str | None = None) -> T:
        """The value of a text; raises InvalidArgumentError as ``of`` does."""
        try:
            return self.parse(text)
        except ValueError as error:
            raise InvalidArgumentError(
                f"{self.key} = {excerpt(text)} is not valid; expected {self.expected}",
                table=table,
                hint=f"Set it to a valid value; for an existing table use {SET_BY}",
                code="DELTA_INVALID_TABLE_PROPERTY",
            ) from error

    def log_text(self, text: str, table: str | None = None) -> str:
        """The text for the log; raises InvalidArgumentError as ``of`` does."""
        value = self.value(text, table)
        return text if self.spelling is None else self.spelling(value)


class Switch(TableProperty[bool]):
    """A property that is true or false."""

    def is_on(self, configuration: Mapping[str, str]) -> bool:
        """Whether the property is true for a table with these properties.

        A text that is not valid counts as false, as in delta-rs.
        """
        text = configuration.get(self.key)
        return self.default if text is None else text.strip().lower() == "true"


class AutoCompact(TableProperty[str]):
    """``delta.autoOptimize.autoCompact``; every value except false means the same."""

    def is_on(self, configuration: Mapping[str, str]) -> bool:
        """Whether writes compact a table with these properties; a text that is not valid counts as false."""
        return configuration.get(self.key) in ("true", "auto", "legacy")


def _switch(key: str, *, default: bool = False, harmless: bool = False) -> Switch:
    return Switch(key, default, boolean, '"true" or "false"', lambda on: str(on).lower(), harmless)


class IsolationLevel(StrEnum):
    """Isolation levels of transactions, from the strictest to the weakest (delta-spark's).

    SERIALIZABLE: reads and writes have the serial order of the log.
    WRITE_SERIALIZABLE: writes have some serial order, which may differ from the order of the log. A blind append may
        come before a commit in the log although the commit did not read the appended rows.
    SNAPSHOT_ISOLATION: rows that other writers add do not conflict. Commits that change no row use this level; a table
        cannot have it.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT_ISOLATION = "SnapshotIsolation"


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


_INTERVAL = "an interval such as 'interval 7 days' or '168 hours', less than a billion days"
#: The greatest whole number, because delta-spark uses 32 bits.
_MOST = 2**31 - 1
#: Valid values of ``delta.parquet.compression.codec``, in any case.
COMPRESSION_CODECS = ("uncompressed", "none", "snappy", "gzip", "zstd", "lz4", "lz4_raw", "brotli")

# Properties that affect which rows are valid, and how they are written.
APPEND_ONLY = _switch("delta.appendOnly")
CHANGE_DATA_FEED = _switch("delta.enableChangeDataFeed")
DELETION_VECTORS = _switch("delta.enableDeletionVectors")
ISOLATION_LEVEL = TableProperty(
    "delta.isolationLevel", IsolationLevel.SERIALIZABLE, _isolation_level, "Serializable or WriteSerializable", str
)
COLUMN_MAPPING_MODE: TableProperty[Mode] = TableProperty(
    "delta.columnMapping.mode", "none", _mapping_mode, "none, name or id", str
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
    "delta.dataSkippingNumIndexedCols", 32, whole_number(-1), "a whole number of columns, or -1 for all columns"
)
STATS_COLUMNS = TableProperty(
    "delta.dataSkippingStatsColumns",
    None,
    column_names,
    "column names separated by commas, in backticks if they have special characters",
)
COMPRESSION_CODEC = TableProperty(
    "delta.parquet.compression.codec",
    "snappy",
    lambda text: choice(*COMPRESSION_CODECS)(text.lower()),
    f"one of {', '.join(COMPRESSION_CODECS)}",
)
TARGET_FILE_SIZE = TableProperty(
    "delta.targetFileSize", 100 << 20, size, "a positive number of bytes, or a size such as 100mb", harmless=True
)

SYMLINK_MANIFESTS = _switch("delta.compatibility.symlinkFormatManifest.enabled")

# Row tracking.
ROW_TRACKING = _switch("delta.enableRowTracking")
ROW_TRACKING_SUSPENDED = _switch("delta.rowTrackingSuspended")
ROW_ID_COLUMN = TableProperty(
    "delta.rowTracking.materializedRowIdColumnName", None, str, "a column name", settable=False
)
ROW_COMMIT_VERSION_COLUMN = TableProperty(
    "delta.rowTracking.materializedRowCommitVersionColumnName", None, str, "a column name", settable=False
)

# In-commit timestamps. They are harmless, because each attempt sets the timestamp of its commit anew.
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

# The log and its maintenance.
CHECKPOINT_INTERVAL = TableProperty(
    "delta.checkpointInterval", 10, whole_number(1, _MOST), f"a whole number from 1 to {_MOST}", harmless=True
)
CHECKPOINT_POLICY = TableProperty("delta.checkpointPolicy", "classic", choice("classic", "v2"), "classic or v2")
MATERIALIZE_PARTITION_COLUMNS = _switch("delta.enableMaterializePartitionColumnsFeature")
CHECKPOINT_PROTECTION = TableProperty(
    "delta.requireCheckpointProtectionBeforeVersion", 0, whole_number(0), "a version", settable=False
)
TRUNCATED_RETENTION = TableProperty(
    "delta.dropFeatureTruncateHistory.retentionDuration", timedelta(hours=24), interval, _INTERVAL
)
LOG_RETENTION = TableProperty("delta.logRetentionDuration", timedelta(days=30), interval, _INTERVAL, harmless=True)
EXPIRED_LOG_CLEANUP = _switch("delta.enableExpiredLogCleanup", default=True, harmless=True)
DELETED_FILE_RETENTION = TableProperty(
    "delta.deletedFileRetentionDuration", timedelta(weeks=1), interval, _INTERVAL, harmless=True
)

#: None: the versions of applications are kept for ever.
TRANSACTION_RETENTION: TableProperty[timedelta | None] = TableProperty(
    "delta.setTransactionRetentionDuration", None, interval, _INTERVAL, harmless=True
)

# Files that writes merge or distribute.
AUTO_COMPACT = AutoCompact(
    "delta.autoOptimize.autoCompact",
    "false",
    choice("true", "false", "auto", "legacy"),
    "true, false, auto or legacy",
    harmless=True,
)
OPTIMIZE_WRITE = _switch("delta.autoOptimize.optimizeWrite")

# Properties of other engines, which this library keeps.
_UNUSED_PROPERTIES: tuple[TableProperty[Any], ...] = (
    _switch("delta.checkpoint.writeStatsAsJson"),
    _switch("delta.checkpoint.writeStatsAsStruct"),
    TableProperty("delta.checkpointRetentionDuration", None, interval, _INTERVAL, harmless=True),
    TableProperty("delta.dataSkippingStringPrefixLength", None, whole_number(0, _MOST), "a whole number of characters"),
    _switch("delta.enableFullRetentionRollback"),
    TableProperty("delta.randomPrefixLength", None, whole_number(1, _MOST), f"a whole number from 1 to {_MOST}"),
    _switch("delta.randomizeFilePrefixes"),
    TableProperty("delta.sampleRetentionDuration", None, interval, _INTERVAL),
    _switch("delta.tuneFileSizesForRewrites", harmless=True),
)

#: Every property of the catalogue, by its key.
PROPERTIES: Mapping[str, TableProperty[Any]] = {
    entry.key: entry
    for entry in (
        *(value for value in tuple(globals().values()) if isinstance(value, TableProperty)),
        *_UNUSED_PROPERTIES,
    )
}


def log_retention(configuration: Mapping[str, str], table: str | None = None) -> timedelta | None:
    """How long versions stay in the log; None: for ever, because log cleanup is off.

    Raises:
        InvalidArgumentError: ``delta.logRetentionDuration`` is not valid.
    """
    retention = LOG_RETENTION.of(configuration, table)
    return retention if EXPIRED_LOG_CLEANUP.is_on(configuration) else None


def target_file_size(configuration: Mapping[str, str], override: int | None = None, *, table: str | None = None) -> int:
    """The target size of a data file in bytes: ``override``, else the table's.

    Raises:
        InvalidArgumentError: the size is not a valid value of ``delta.targetFileSize``, such as 0.
    """
    if override is None:
        return TARGET_FILE_SIZE.of(configuration, table)
    return TARGET_FILE_SIZE.value(str(override), table)
