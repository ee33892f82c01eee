"""Checkpoints that no available writer creates, made from the protocol's text: both engines and DuckDB agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import LogCorruptedError
from tests.interop.hand_made_logs import (
    ADD,
    CHECKPOINT_METADATA,
    METADATA,
    MODIFIED,
    PROTOCOL,
    SIDECAR,
    UUIDS,
    head,
    ids,
    ids_of,
    parquet,
    put_named,
    removal,
)
from tests.log_builder import Action, put
from tests.peers import read_duckdb


def test_a_classic_checkpoint_with_no_more_than_the_needed_columns(tmp_path: Path, engine: Engine) -> None:
    adds = [ids(tmp_path, f"{n}.parquet", n) for n in range(3)]
    rows = [*head(), *({"add": add} for add in adds)]
    parquet(tmp_path, f"{3:020}.checkpoint.parquet", rows, add=ADD, metaData=METADATA, protocol=PROTOCOL)
    put(tmp_path, 3, {"add": adds[2]})
    put(tmp_path, 4, removal(adds[1]))
    assert ids_of(tmp_path, engine) == [0, 2]
    assert ids_of(tmp_path, engine, 3) == [0, 1, 2]
    assert [row["id"] for row in read_duckdb(tmp_path).to_pylist()] == [0, 2]


def test_a_classic_checkpoint_with_statistics_as_columns_only(tmp_path: Path, engine: Engine) -> None:
    bounds = pa.struct([("id", pa.int64())])
    parsed = pa.struct(
        [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", bounds)]
    )
    kind = pa.struct([*(member for member in ADD if member.name != "stats"), pa.field("stats_parsed", parsed)])
    adds = [ids(tmp_path, f"{n}.parquet", 10 * n, 10 * n + 1) for n in range(3)]
    for n, add in enumerate(adds):
        low, high = {"id": 10 * n}, {"id": 10 * n + 1}
        add["stats_parsed"] = {"numRecords": 2, "minValues": low, "maxValues": high, "nullCount": {"id": 0}}
    rows = [*head(), *({"add": add} for add in adds)]
    parquet(tmp_path, f"{3:020}.checkpoint.parquet", rows, add=kind, metaData=METADATA, protocol=PROTOCOL)
    put(tmp_path, 3, {"add": adds[2]})
    assert ids_of(tmp_path, engine) == [0, 1, 10, 11, 20, 21]
    table = DeltaTable(tmp_path)
    assert [Path(path).name for path in table.files("id = 11")["path"].to_pylist()] == ["1.parquet"]
    assert table.count() == 6


def sidecars(root: Path, parts: Sequence[Sequence[Action]]) -> list[Action]:
    """Write the sidecar files of these actions, and return the actions that name the files."""
    named = []
    for uuid, actions in zip(UUIDS, parts, strict=False):
        file = parquet(root, f"_sidecars/{uuid}.parquet", actions, add=ADD)
        size = file.stat().st_size
        named.append({"sidecar": {"path": file.name, "sizeInBytes": size, "modificationTime": MODIFIED}})
    return named


def v2(root: Path, name: str, actions: Sequence[Action]) -> None:
    rows = [{"checkpointMetadata": {"version": 3}}, *head("v2Checkpoint"), *actions]
    if name.endswith(".json"):
        put_named(root, name, rows)
        return
    kinds = {"checkpointMetadata": CHECKPOINT_METADATA, "metaData": METADATA, "protocol": PROTOCOL, "add": ADD}
    parquet(root, name, rows, **kinds, sidecar=SIDECAR)


NAMES = {
    "UUID and JSON": f"{3:020}.checkpoint.{UUIDS[0]}.json",
    "UUID and Parquet": f"{3:020}.checkpoint.{UUIDS[0]}.parquet",
    "classic name": f"{3:020}.checkpoint.parquet",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("with_sidecars", [True, False], ids=["sidecars", "inline"])
def test_v2_checkpoints(tmp_path: Path, engine: Engine, name: str, with_sidecars: bool) -> None:
    adds = [ids(tmp_path, f"{n}.parquet", n) for n in range(4)]
    actions = [{"add": add} for add in adds]
    v2(tmp_path, name, sidecars(tmp_path, [actions[:2], actions[2:]]) if with_sidecars else actions)
    put(tmp_path, 3, {"add": adds[3]})
    put(tmp_path, 4, removal(adds[0]))
    assert ids_of(tmp_path, engine) == [1, 2, 3]
    assert ids_of(tmp_path, engine, 3) == [0, 1, 2, 3]
    assert [row["id"] for row in read_duckdb(tmp_path).to_pylist()] == [1, 2, 3]


def test_a_missing_sidecar_is_an_error_or_another_checkpoint_is_read(tmp_path: Path, engine: Engine) -> None:
    adds = [ids(tmp_path, f"{n}.parquet", n) for n in range(4)]
    v2(tmp_path, NAMES["UUID and JSON"], sidecars(tmp_path, [[{"add": add} for add in adds]]))
    put(tmp_path, 3, {"add": adds[3]})
    (file,) = (tmp_path / "_delta_log/_sidecars").iterdir()
    file.unlink()
    with pytest.raises(LogCorruptedError, match=UUIDS[0]):
        ids_of(tmp_path, engine)
    parquet(
        tmp_path,
        NAMES["classic name"],
        [*head("v2Checkpoint"), *({"add": add} for add in adds)],
        add=ADD,
        metaData=METADATA,
        protocol=PROTOCOL,
    )
    assert ids_of(tmp_path, engine) == [0, 1, 2, 3]
