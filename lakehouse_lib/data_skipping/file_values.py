"""The values of files that a decision about them needs: partition values and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.schema import DataType
from lakehouse_lib.statistics import Bounds, ColumnPath


@dataclass(frozen=True)
class Needs:
    """The columns that a decision about files needs, by the physical names in the log.

    Attributes:
        partitions: types of partition columns, by their keys in ``partitionValues``.
        bounds: types of leaf columns, by their paths in the statistics.
    """

    partitions: Mapping[str, DataType]
    bounds: Mapping[ColumnPath, DataType]


@dataclass(frozen=True)
class FileValues:
    """The partition values and bounds of ``rows`` files, one entry for each file, with the keys of ``Needs``."""

    rows: int
    partitions: Mapping[str, pa.Array]
    bounds: Mapping[ColumnPath, Bounds]
