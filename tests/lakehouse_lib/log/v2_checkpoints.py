"""The first actions of tables with V2 checkpoints, their checkpoints, and a log without older commits."""

from __future__ import annotations

import pyarrow.parquet as pq

from lakehouse_lib.log import cache, file_names
from lakehouse_lib.log.checkpoint.part import ParquetPart
from lakehouse_lib.log.checkpoint.write import write_checkpoint
from lakehouse_lib.log.segment import load_segment
from lakehouse_lib.snapshot import load_snapshot
from tests.log_builder import METADATA

PROTOCOL = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["v2Checkpoint"],
        "writerFeatures": ["v2Checkpoint"],
    }
}
META = {"metaData": METADATA | {"configuration": {"delta.checkpointPolicy": "v2"}}}
FULL = 20


def checkpoint(store, since=0, snapshot=None):
    snapshot = snapshot or load_snapshot(store)
    return write_checkpoint(store, snapshot.version, snapshot.state, tombstones_since=since)


def top(store, version=None):
    """The actions of the newest checkpoint's top object, without file actions."""
    [meta] = load_segment(store, version).checkpoint.parts
    with store.open_input(meta.path) as source:
        file = pq.ParquetFile(source)
        kinds = ("checkpointMetadata", "sidecar", "protocol", "metaData", "txn", "add", "remove")
        return ParquetPart(store, meta, 0, file).bodies(kinds, file)


def cut(store, version):
    store.delete_many([file_names.commit(number) for number in range(version)])
    cache.CACHE.clear()
