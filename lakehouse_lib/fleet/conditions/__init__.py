"""Conditions that a table meets or does not: what a sensor waits for. Importing this package imports no pyarrow."""

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
