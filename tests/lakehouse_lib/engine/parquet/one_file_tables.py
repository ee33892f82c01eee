"""Tables of one Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from lakehouse_lib import DeltaTable
from tests.log_builder import data_file, put_table

NAME = {"delta.columnMapping.mode": "name"}

ID = {"delta.columnMapping.mode": "id"}


def read(root: Path, columns: list[str] | None = None, where: str | None = None) -> list[dict[str, Any]]:
    return DeltaTable(root).to_pyarrow_table(columns=columns, filters=where).to_pylist()


def one_file(root: Path, rows: pa.Table, *fields: dict[str, Any], **how: Any) -> Path:
    return put_table(root, fields, [data_file(root, "a.parquet", rows)], **how)
