"""The conditions on a table that a sensor waits for. Importing this package imports no pyarrow."""

from lakehouse_lib.fleet.conditions.condition import (
    Condition,
    Fresh,
    PartitionPresent,
    QualityPassed,
    SmallFilesBelow,
    VersionReached,
    condition_of,
    to_dict,
)

__all__ = [
    "Condition",
    "Fresh",
    "PartitionPresent",
    "QualityPassed",
    "SmallFilesBelow",
    "VersionReached",
    "condition_of",
    "to_dict",
]
