"""The properties of a new table: as every engine reads them, or refused."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse_lib.engine.parquet.writer import CODEC_PROPERTY, TARGET_SIZE_PROPERTY, codec_of, target_size_of
from lakehouse_lib.errors import InvalidArgumentError, UnsupportedFeatureError
from lakehouse_lib.features import row_tracking
from lakehouse_lib.protocol.table_properties import ISOLATION_LEVEL, LogRetention, TableProperties, parse_interval

# Properties that switch on a feature this library cannot keep: the feature, and the value that leaves it off.
_NEED_MORE = {
    "delta.columnMapping.mode": ("columnMapping", "none"),
    "delta.enableDeletionVectors": ("deletionVectors", "false"),
    "delta.enableTypeWidening": ("typeWidening", "false"),
    "delta.enableIcebergCompatV1": ("icebergCompatV1", "false"),
    "delta.enableIcebergCompatV2": ("icebergCompatV2", "false"),
    "delta.enableIcebergCompatV3": ("icebergCompatV3", "false"),
}
#: Properties that are on or off; one that is neither would be off, and whoever set it believes otherwise.
_SWITCHES = frozenset(
    (
        "delta.appendOnly",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.enableChangeDataFeed",
        "delta.enableExpiredLogCleanup",
        "delta.enableInCommitTimestamps",
        row_tracking.STABLE,
        row_tracking.SUSPENDED,
        *(key for key, (_, off) in _NEED_MORE.items() if off == "false"),
    )
)
#: Durations that others heed; ours are parsed by who heeds them.
_DURATIONS = ("delta.checkpointRetentionDuration", "delta.setTransactionRetentionDuration")
_POLICY, _INTERVAL = "delta.checkpointPolicy", "delta.checkpointInterval"
_CONSTRAINT, _FEATURE = "delta.constraints.", "delta.feature."
#: Names that say something, by how another case spells them.
_NAMES = {
    name.lower(): name
    for name in (
        *_NEED_MORE,
        *_SWITCHES,
        *_DURATIONS,
        _POLICY,
        _INTERVAL,
        ISOLATION_LEVEL,
        CODEC_PROPERTY,
        TARGET_SIZE_PROPERTY,
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.deletedFileRetentionDuration",
        "delta.logRetentionDuration",
    )
}
#: delta-spark keeps whole numbers in 32 bits.
_MOST = 2**31 - 1


def new_properties(configuration: Mapping[str, str | None] | None, *, table: str | None = None) -> dict[str, str]:
    """The properties as the log is to have them. ``True`` is "true": delta-rs takes "True" for off; and nothing has
    spaces around it, at which delta-spark fails.

    Args:
        configuration: table properties (``delta.*``); None values are left out.

    Raises:
        InvalidArgumentError: a value that cannot be, or a name that would say nothing because of its case.
        UnsupportedFeatureError: a property that needs a feature this library cannot keep.
    """
    properties = {key: str(value).strip() for key, value in (configuration or {}).items() if value is not None}
    properties |= {key: properties[key].lower() for key in _SWITCHES & properties.keys()}
    for key in properties:
        _check_name(key, table)
    known = TableProperties.of(properties, table)
    known.check()
    if ISOLATION_LEVEL in properties:
        properties[ISOLATION_LEVEL] = str(known.isolation_level)
    _check_values(properties, table)
    if known.checkpoint_interval > _MOST:
        raise InvalidArgumentError(
            f"{_INTERVAL} = {properties[_INTERVAL]} is more than other engines can hold",
            table=table,
            hint=f"Set it to {_MOST} or less",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    asked = {feature for key, (feature, off) in _NEED_MORE.items() if properties.get(key, off).lower() != off}
    asked |= {"checkConstraints" for key in properties if key.startswith(_CONSTRAINT)}
    asked |= {key.removeprefix(_FEATURE) for key in properties if key.startswith(_FEATURE)}
    if asked:
        raise UnsupportedFeatureError(
            f"the properties ask for {', '.join(sorted(asked))}, which this library cannot keep yet",
            table=table,
            hint="Leave these properties out",
        )
    return properties


def is_on(properties: Mapping[str, str], switch: str) -> bool:
    return properties.get(switch, "").lower() == "true"


def checkpoint_policy(properties: Mapping[str, str]) -> str:
    return properties.get(_POLICY, "classic")


def _check_name(key: str, table: str | None) -> None:
    if key in ("delta.minReaderVersion", "delta.minWriterVersion"):
        raise InvalidArgumentError(
            f"{key} is no property that a table keeps",
            table=table,
            hint="Leave it out: a table gets the least protocol that its schema and properties need",
        )
    lower = key.lower()
    prefix = next((one for one in (_CONSTRAINT, _FEATURE) if lower.startswith(one)), None)
    meant = _NAMES.get(lower, key) if prefix is None else prefix + key[len(prefix) :]
    if key != meant:
        raise InvalidArgumentError(
            f"the property {key!r} would say nothing, for its name is spelled otherwise",
            table=table,
            hint=f"Write {meant}",
        )


def _check_values(properties: Mapping[str, str], table: str | None) -> None:
    LogRetention.of(properties, table)
    codec_of(properties)
    target_size_of(properties, table=table)
    for key in _DURATIONS:
        if key in properties:
            parse_interval(properties[key], key, table)
    for key in _SWITCHES & properties.keys():
        if properties[key] not in ("true", "false"):
            raise InvalidArgumentError(
                f"{key} = {properties[key]!r} is neither on nor off",
                table=table,
                hint='Set it to "true" or "false"',
                code="DELTA_INVALID_TABLE_PROPERTY",
            )
    if is_on(properties, row_tracking.STABLE) and is_on(properties, row_tracking.SUSPENDED):
        raise InvalidArgumentError(
            f"{row_tracking.STABLE} and {row_tracking.SUSPENDED} are both true",
            table=table,
            hint="Leave out one of them",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
    if checkpoint_policy(properties) not in ("classic", "v2"):
        raise InvalidArgumentError(
            f"{_POLICY} = {properties[_POLICY]!r} is no policy of checkpoints",
            table=table,
            hint="Set it to classic or v2",
            code="DELTA_INVALID_TABLE_PROPERTY",
        )
