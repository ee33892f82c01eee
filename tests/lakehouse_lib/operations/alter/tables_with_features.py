"""Tables that use a feature, which a test drops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from lakehouse_lib import DeltaTable, write_deltalake

ROWS = pa.table({"id": pa.array(range(6), pa.int32()), "part": ["a", "b"] * 3})


def with_vectors(root: Path) -> None:
    write_deltalake(root, ROWS, partition_by=["part"], configuration={"delta.enableDeletionVectors": "true"})
    DeltaTable(root).delete("id = 2")


def with_wider_type(root: Path) -> None:
    write_deltalake(root, ROWS, partition_by=["part"], configuration={"delta.enableTypeWidening": "true"})
    table = DeltaTable(root)
    table.alter.change_column_type("id", "long")
    table.delete("id = 2")


def with_v2_checkpoints(root: Path) -> None:
    write_deltalake(root, ROWS, configuration={"delta.checkpointPolicy": "v2"})
    table = DeltaTable(root)
    table.delete("id = 2")
    table.create_checkpoint()


def with_protocol_check(root: Path) -> None:
    write_deltalake(root, ROWS, configuration={"delta.feature.vacuumProtocolCheck": "supported"})
    DeltaTable(root).delete("id = 2")


def with_unused_type(root: Path) -> None:
    write_deltalake(root, ROWS)
    table = DeltaTable(root)
    table.alter.add_feature("timestampNtz", allow_protocol_versions_increase=True)
    table.delete("id = 2")


FEATURES: dict[str, Callable[[Path], None]] = {
    "deletionVectors": with_vectors,
    "typeWidening": with_wider_type,
    "v2Checkpoint": with_v2_checkpoints,
    "vacuumProtocolCheck": with_protocol_check,
    "timestampNtz": with_unused_type,
}


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())
