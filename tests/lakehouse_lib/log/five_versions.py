"""A table of five versions, whose commits a checkpoint or a log compaction replaces."""

from __future__ import annotations

import json
import random

from lakehouse_lib.log import file_names
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.log_builder import METADATA, add_of_row, protocol, put, remove

V2 = protocol("v2Checkpoint", writer=["domainMetadata"])
META = {"metaData": METADATA | {"configuration": {"delta.checkpointPolicy": "v2"}}}
TXN = {"txn": {"appId": "app", "version": 7, "lastUpdated": 5}}
DOMAIN = {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
AT = 3  # the checkpoint's version


def write_table(root):
    """Versions 0 to 4, each with new files of real rows; 2 removes a file of 1, and 4 one of 0. No checkpoint yet."""
    store = LocalStore(str(root), fsync=False)
    for version in range(5):
        actions = [add_of_row(store, f"f{version}-{n}.parquet", 10 * version + n) for n in range(3)]
        if version == 0:
            actions = [V2, META, TXN, DOMAIN, *actions]
        if version == 2:
            actions.append(remove("f1-0.parquet"))
        if version == 4:
            actions.append(remove("f0-1.parquet"))
        put(store, version, *actions)
    return store


def head():
    """The actions of the table that are not files."""
    return [V2, META, TXN, DOMAIN]


def files_of(store, version=AT):
    """The adds and removes of a version, from its commits."""
    adds, removes = {}, {}
    for number in range(version + 1):
        for line in store.read(file_names.commit(number)).splitlines():
            action = json.loads(line)
            if "add" in action:
                adds[action["add"]["path"]] = action
            if "remove" in action:
                adds.pop(action["remove"]["path"])
                removes[action["remove"]["path"]] = action
    files = [*adds.values(), *removes.values()]
    random.Random(1).shuffle(files)
    return files


def state_of(store, version=None):
    snapshot = load_snapshot(store, version)
    rows = snapshot.files.sort_by("path").to_pylist()
    removed = sorted(snapshot.tombstones["path"].to_pylist())
    return snapshot.metadata, snapshot.protocol, snapshot.transactions, snapshot.domains, rows, removed
