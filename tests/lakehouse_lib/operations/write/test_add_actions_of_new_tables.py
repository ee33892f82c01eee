"""A new table of files that another program has written: as delta-rs makes it, and refusals of wrong actions."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import deltalake
import deltalake.transaction
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import AddAction, DeltaTable, create_table_with_add_actions, write_deltalake
from lakehouse_lib.errors import DeltaError, InvalidArgumentError, PathOutsideTableError
from tests.peers import read_by_all

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string())])


def written(root: Path, part: str | None, start: int) -> AddAction:
    name = f"{start} %.parquet"
    root.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": range(start, start + 10)}), root / name)
    stats = {"numRecords": 10, "minValues": {"id": start}, "maxValues": {"id": start + 9}, "nullCount": {"id": 0}}
    return AddAction(name, (root / name).stat().st_size, {"part": part}, 1_767_225_600_000, True, json.dumps(stats))


def test_beside_delta_rs(tmp_path: Path) -> None:
    own, peer = tmp_path / "ours", tmp_path / "theirs"
    actions = [[written(root, None, 0), written(root, "x", 10)] for root in (own, peer)]
    properties = {"delta.checkpointInterval": "7"}
    create_table_with_add_actions(own, SCHEMA, actions[0], partition_by="part", name="n", configuration=properties)
    deltalake.transaction.create_table_with_add_actions(
        str(peer),
        deltalake.Schema.from_arrow(SCHEMA),
        [deltalake.transaction.AddAction(**dataclasses.asdict(action)) for action in actions[1]],
        partition_by="part",
        name="n",
        configuration=properties,
    )
    table, other = DeltaTable(own), deltalake.DeltaTable(peer)
    assert read_by_all(own).equals(read_by_all(peer))
    assert table.to_pyarrow_table(filters="id > 15").num_rows == 4
    for name in ("name", "configuration", "partition_columns"):
        assert getattr(table.metadata(), name) == getattr(other.metadata(), name)
    log = [
        [json.loads(line)["add"] for line in path.read_text().splitlines() if '"add"' in line]
        for path in (root / "_delta_log" / f"{0:020}.json" for root in (own, peer))
    ]
    for adds in log:
        for add in adds:
            add["stats"] = json.loads(add["stats"])
    assert [{key: add[key] for key in own_add} for own_add, add in zip(*log, strict=True)] == log[0]
    write_deltalake(own, pa.table({"id": [99], "part": ["x"]}), mode="append")
    assert read_by_all(own).num_rows == 21


def test_modes(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1], "part": ["x"]}), partition_by="part")
    action = written(tmp_path, "y", 100)
    for mode in ("error", "append"):
        with pytest.raises(InvalidArgumentError, match="exists already"):
            create_table_with_add_actions(tmp_path, SCHEMA, [action], mode, "part")
    create_table_with_add_actions(tmp_path, SCHEMA, [action], "ignore", "part")
    assert DeltaTable(tmp_path).version() == 0
    create_table_with_add_actions(tmp_path, SCHEMA, [action], "overwrite", "part")
    assert read_by_all(tmp_path)["id"].to_pylist() == list(range(100, 110))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"path": ""}, "path is ''"),
        ({"path": "other.parquet"}, "1 files do not exist: other.parquet"),
        ({"path": "../x.parquet"}, "outside the table"),
        ({"size": -1}, "size of"),
        ({"modification_time": 1.5}, "modification_time of"),
        ({"data_change": 1}, "data_change of"),
        ({"partition_values": {}}, "expected a text or None for each of part"),
        ({"partition_values": {"part": 1}}, "expected a text or None for each of part"),
        ({"stats": "[1]"}, "expected a JSON object"),
        ({"stats": '{"numRecords": NaN}'}, "expected a JSON object"),
        ({"stats": '{"numRecords": -1}'}, "numRecords of"),
    ],
)
def test_wrong_actions_are_refused(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    action = dataclasses.replace(written(tmp_path, "x", 0), **change)
    with pytest.raises((InvalidArgumentError, PathOutsideTableError)) as caught:
        create_table_with_add_actions(tmp_path, SCHEMA, [action], partition_by=["part"])
    assert text in caught.value.message
    assert not DeltaTable.is_deltatable(tmp_path)


def test_invalid_combinations_are_refused(tmp_path: Path) -> None:
    action = written(tmp_path, "x", 0)
    other_spelling = dataclasses.replace(action, path=f"./{action.path}")
    mapping = {"delta.columnMapping.mode": "name"}
    for actions, configuration, text in (
        ([action, other_spelling], None, "the same path"),
        ([action], mapping, "columnMapping"),
        ([action], {"delta.constraints.large": "id > 5"}, "expected no constraint"),
    ):
        with pytest.raises(DeltaError, match=text):
            create_table_with_add_actions(tmp_path, SCHEMA, actions, partition_by=["part"], configuration=configuration)
    assert not DeltaTable.is_deltatable(tmp_path)
