"""The feature materializePartitionColumns: data files have copies of the partition columns (its proposal)."""

from __future__ import annotations

from lakehouse_lib.features.feature import Feature, HasProperty
from lakehouse_lib.protocol.table_properties import MATERIALIZE_PARTITION_COLUMNS

FEATURE = Feature(
    "materializePartitionColumns",
    False,
    True,
    True,
    HasProperty(MATERIALIZE_PARTITION_COLUMNS),
    "new files have copies of the partition columns; readers use the partition values of the log",
    "proposal",
)
