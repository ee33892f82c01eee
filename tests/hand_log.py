"""A table with a change data feed whose commits a test writes line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib import DeltaTable

SCHEMA = {
    "type": "struct",
    "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "part")],
}


class Log:
    """A table of one column ``id``, partitioned by ``part``, whose commits a test writes line by line."""

    def __init__(self, root: Path, *, partitioned: bool = False) -> None:
        self.root = root
        self.version = -1
        (root / "_delta_log").mkdir(parents=True)
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors", "changeDataFeed"]}
        metadata = {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(SCHEMA),
            "partitionColumns": ["part"] if partitioned else [],
            "configuration": {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"},
        }
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        self.commit({"protocol": protocol}, {"metaData": metadata})

    def commit(self, *actions: dict[str, Any]) -> None:
        self.version += 1
        text = "\n".join(json.dumps(one) for one in actions)
        (self.root / f"_delta_log/{self.version:020}.json").write_text(text + "\n")

    def add(self, path: str, rows: int | None = 10, **more: Any) -> dict[str, Any]:
        size = (self.root / path).stat().st_size
        body = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
        if rows is not None:
            body["stats"] = json.dumps({"numRecords": rows, "tightBounds": False})
        return {"add": body | more}

    def remove(self, path: str, **more: Any) -> dict[str, Any]:
        size = (self.root / path).stat().st_size
        body = {"path": path, "deletionTimestamp": 1, "dataChange": True, "extendedFileMetadata": True}
        return {"remove": body | {"partitionValues": {}, "size": size} | more}

    def file(self, path: str, ids: list[int], **columns: list[Any]) -> str:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), **columns}), self.root / path)
        return path

    def changes(self, engine: Any = None, **range_: Any) -> list[tuple[Any, ...]]:
        """(version, change, id, part), sorted."""
        columns = ["_commit_version", "_change_type", "id", "part"]
        feed = DeltaTable(self.root, engine=engine).load_cdf(columns=columns, **range_)
        found = feed.toArrow() if hasattr(feed, "toArrow") else feed.read_all()
        return sorted(tuple(row.values()) for row in found.to_pylist())
