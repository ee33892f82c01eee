"""A log that a property test extends step by step, and its expected live files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from lakehouse_lib.store import LocalStore
from tests.checkpoint_files import put_classic, put_parts, put_sidecar, put_v2
from tests.log_builder import METADATA, add, protocol, put, remove, statistics

HEAD = [protocol("deletionVectors", "v2Checkpoint"), {"metaData": METADATA}]
PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([("id", pa.int64())])),
        ("maxValues", pa.struct([("id", pa.int64())])),
        ("nullCount", pa.struct([("id", pa.int64())])),
    ]
)


def spelled(number: int, time: int) -> str:
    """One of several spellings of a file's path."""
    return (f"f {number}", f"f%20{number}", f"./f%20{number}", f"%66%20{number}")[time % 4].replace("f ", "f%20")


def vector(number: int, time: int) -> dict[str, object]:
    return {
        "storageType": "u",
        "pathOrInlineDv": f"ab{number:018d}",
        "offset": time,
        "sizeInBytes": 40,
        "cardinality": 1 + time,
    }


class Log:
    """A log that is extended step by step, and its expected live files."""

    def __init__(self, root: Path) -> None:
        self.store = LocalStore(str(root), fsync=False)
        self.live: dict[int, dict[str, object]] = {}
        self.gone: dict[tuple[int, int | None], dict[str, object]] = {}
        self.version = 0
        put(self.store, 0, *HEAD)

    def commit(self, steps: str | list[str]) -> None:
        self.version += 1
        actions = []
        for number, step in enumerate(steps):
            if step == "." or (number not in self.live and step in "rd"):
                continue
            # Never write a live file again without a change: no commit adds and removes the same file.
            again = step == "w" and "deletionVector" not in self.live.get(number, {})
            if number in self.live and step in "rdw" and not again:
                actions.append(self._remove(number))
            if step in "dw" or (step == "a" and number not in self.live):
                actions.append(self._add(number, with_vector=step == "d"))
        put(self.store, self.version, *(actions or [{"txn": {"appId": "x", "version": self.version}}]))

    def checkpoint(self, kind: str) -> None:
        adds = [{"add": body} for body in self.live.values()]
        removes = [{"remove": body} for body in self.gone.values()]
        match kind:
            case "classic":
                put_classic(self.store, self.version, [*HEAD, *adds, *removes], row_group=3)
            case "structs":
                for add in adds:
                    add["add"] = add["add"] | {"stats_parsed": json.loads(str(add["add"]["stats"]))}
                put_classic(self.store, self.version, [*HEAD, *adds, *removes], stats_parsed=PARSED, row_group=4)
            case "parts":
                put_parts(self.store, self.version, [[*HEAD, *adds[::2]], [*adds[1::2], *removes]])
            case "v2-json" | "v2-parquet":
                sidecars = [put_sidecar(self.store, adds[:4]), put_sidecar(self.store, [*removes, *adds[4:]])]
                put_v2(self.store, self.version, kind.removeprefix("v2-"), [*HEAD, *sidecars])

    def _add(self, number: int, *, with_vector: bool) -> dict[str, object]:
        stats = statistics(number * 10, number * 10 + 9, 10)
        more: dict[str, object] = {"size": 100 + number, "modificationTime": self.version, "stats": stats}
        if with_vector:
            more["deletionVector"] = vector(number, self.version)
        added = add(spelled(number, self.version), **more)
        self.live[number] = added["add"]
        self.gone.pop((number, self.version if with_vector else None), None)
        return added

    def _remove(self, number: int) -> dict[str, object]:
        body = self.live.pop(number)
        more = {"deletionTimestamp": self.version, "size": body["size"]}
        descriptor = body.get("deletionVector")
        if descriptor is not None:
            more["deletionVector"] = descriptor
        removed = remove(spelled(number, self.version + 1), **more)
        self.gone[number, descriptor["offset"] if descriptor is not None else None] = removed["remove"]
        return removed


def in_order(files: pa.Table) -> list[dict[str, object]]:
    rows = files.to_pylist(maps_as_pydicts="strict")
    return sorted(rows, key=lambda row: (row["path"], json.dumps(row["deletionVector"])))
