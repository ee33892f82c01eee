"""``create_write_transaction``: file actions on a table that exists, beside delta-rs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake.transaction import AddAction as TheirAdd
from deltalake.transaction import RemoveAction as TheirRemove

from lakehouse_lib import AddAction, DeltaTable, RemoveAction, write_deltalake
from lakehouse_lib.errors import CommitFailedError, DeltaError
from lakehouse_lib.operations.write.file_actions import commit_actions
from lakehouse_lib.schema import Schema
from tests.peers import plain, read_by_all, read_delta_rs

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
LIBRARY = SimpleNamespace(Add=AddAction, Remove=RemoveAction, Table=DeltaTable)
DELTA_RS = SimpleNamespace(Add=TheirAdd, Remove=TheirRemove, Table=deltalake.DeltaTable)


def made(root: Path, **configuration: str) -> Path:
    """A table with the rows 1 and 2 in the partitions a and b, and files that are not in it yet: x (a) and y (b)."""
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    write_deltalake(root, rows, partition_by="p", configuration=configuration)
    for name, number in (("x", 7), ("y", 8)):
        pq.write_table(pa.table({"id": [number]}), root / f"{name}.parquet")
    return root


def add(lib: Any, root: Path, name: str = "x", part: str | None = "a", **changes: Any) -> Any:
    path = root / f"{name}.parquet"
    stats = '{"numRecords":1}'
    return lib.Add(**{"path": path.name, "size": path.stat().st_size, "partition_values": {"p": part},
                      "modification_time": 1, "data_change": True, "stats": stats, **changes})  # fmt: skip


def remove(lib: Any, root: Path, part: str = "a", *, data_change: bool = True) -> Any:
    (path,) = root.glob(f"p={part}/*.parquet")
    return lib.Remove(path.relative_to(root).as_posix(), data_change, 1)


Call = Callable[[Any, Any, Path], None]
CALLS: dict[str, Call] = {
    "append": lambda t, lib, r: t.create_write_transaction([add(lib, r)], "append", SCHEMA, ["p"]),
    "append two": lambda t, lib, r: t.create_write_transaction(
        [add(lib, r), add(lib, r, "y", None, stats="")], "append", SCHEMA
    ),
    "append nothing": lambda t, lib, r: t.create_write_transaction([], "append", SCHEMA, "p"),
    "fewer columns": lambda t, lib, r: t.create_write_transaction([add(lib, r)], "append", pa.schema([SCHEMA[1]])),
    "overwrite": lambda t, lib, r: t.create_write_transaction([add(lib, r)], "overwrite", SCHEMA, ["p"]),
    "overwrite by nothing": lambda t, lib, r: t.create_write_transaction([], "overwrite", SCHEMA, ["p"]),
    "overwrite a partition": lambda t, lib, r: t.create_write_transaction(
        [add(lib, r, "y")], "overwrite", SCHEMA, ["p"], [("p", "=", "a")]
    ),
    "overwrite the schema": lambda t, lib, r: t.create_write_transaction(
        [add(lib, r)], "overwrite", SCHEMA.append(pa.field("new", pa.int32())), ["p"]
    ),
    "remove": lambda t, lib, r: t.create_write_transaction([remove(lib, r, "b")], "append", SCHEMA, ["p"]),
    "replace": lambda t, lib, r: t.create_write_transaction(
        [add(lib, r, data_change=False), remove(lib, r, data_change=False)], "append", SCHEMA, ["p"]
    ),
}


def commit(root: Path) -> dict[str, Any]:
    """The actions of version 1, without values that differ from run to run."""
    lines = [json.loads(line) for line in (root / "_delta_log" / f"{1:020d}.json").read_text().splitlines()]
    info = next(line["commitInfo"] for line in lines if "commitInfo" in line)
    return {
        "operation": (info["operation"], info["operationParameters"]["mode"]),
        "adds": sorted((a["path"], a["dataChange"]) for line in lines if (a := line.get("add"))),
        "removes": sorted((a["path"][:3], a["dataChange"]) for line in lines if (a := line.get("remove"))),
        "metaData": any("metaData" in line for line in lines),
    }


@pytest.mark.parametrize("call", CALLS)
def test_beside_delta_rs(tmp_path: Path, call: str) -> None:
    for name, lib in (("ours", LIBRARY), ("theirs", DELTA_RS)):
        table = lib.Table(made(tmp_path / name))
        CALLS[call](table, lib, tmp_path / name)
    assert commit(tmp_path / "ours") == commit(tmp_path / "theirs")
    assert read_by_all(tmp_path / "ours") == plain(read_delta_rs(tmp_path / "theirs"))


def test_the_table_is_updated_and_accepts_actions_of_deltalake(tmp_path: Path) -> None:
    table = DeltaTable(made(tmp_path))
    table.create_write_transaction([add(DELTA_RS, tmp_path), remove(DELTA_RS, tmp_path)], "append", table.schema())
    assert table.version() == 1
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [2, 7]
    assert table.history(1)[0]["isBlindAppend"] is False


def test_a_path_is_encoded_or_not(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "p": ["a b%", "c d%"]}), partition_by="p")
    table = DeltaTable(tmp_path)
    first, second = table.snapshot.files["path"].to_pylist()
    decoded = unquote(second)
    assert (tmp_path / decoded).exists()
    assert decoded != second
    removes = [RemoveAction(path, True, 0) for path in (first, decoded)]
    table.create_write_transaction(removes, "append", SCHEMA)
    assert table.count() == 0


REFUSED: dict[str, tuple[Call, str]] = {
    "mode": (lambda t, lib, r: t.create_write_transaction([add(lib, r)], "error", SCHEMA), "DELTA_INVALID_SAVE_MODE"),
    "partitions": (
        lambda t, lib, r: t.create_write_transaction([add(lib, r)], "append", SCHEMA, ["id"]),
        "DELTA_PARTITIONING_MISMATCH",
    ),
    "column": (
        lambda t, lib, r: t.create_write_transaction([add(lib, r)], "append", SCHEMA.append(pa.field("z", pa.int8()))),
        "DELTA_SCHEMA_MISMATCH",
    ),
    "type": (
        lambda t, lib, r: t.create_write_transaction([add(lib, r)], "append", pa.schema([("id", pa.int32())])),
        "DELTA_SCHEMA_MISMATCH",
    ),
    "column of a partition": (
        lambda t, lib, r: t.create_write_transaction(
            [add(lib, r)], "overwrite", SCHEMA.append(pa.field("z", pa.int8())), None, "p = 'a'"
        ),
        "DELTA_SCHEMA_MISMATCH",
    ),
    "partition column dropped": (
        lambda t, lib, r: t.create_write_transaction([], "overwrite", pa.schema([SCHEMA[0]])),
        "DELTA_INVALID_ARGUMENT",
    ),
    "filters of an append": (
        lambda t, lib, r: t.create_write_transaction([add(lib, r)], "append", SCHEMA, None, "p = 'a'"),
        "DELTA_INVALID_ADD_ACTION",
    ),
    "filters of a column": (
        lambda t, lib, r: t.create_write_transaction([add(lib, r)], "overwrite", SCHEMA, None, "id = 1"),
        "DELTA_INVALID_ARGUMENT",
    ),
    "another partition": (
        lambda t, lib, r: t.create_write_transaction([add(lib, r, part="b")], "overwrite", SCHEMA, None, "p = 'a'"),
        "DELTA_REPLACE_WHERE_MISMATCH",
    ),
    "null partition": (
        lambda t, lib, r: t.create_write_transaction([add(lib, r, part=None)], "overwrite", SCHEMA, None, "p = 'a'"),
        "DELTA_REPLACE_WHERE_MISMATCH",
    ),
    "remove of an overwrite": (
        lambda t, lib, r: t.create_write_transaction([remove(lib, r)], "overwrite", SCHEMA),
        "DELTA_INVALID_ADD_ACTION",
    ),
    "unknown file": (
        lambda t, lib, r: t.create_write_transaction([RemoveAction("x.parquet", True, 1)], "append", SCHEMA),
        "DELTA_INVALID_ADD_ACTION",
    ),
    "file twice": (
        lambda t, lib, r: t.create_write_transaction([remove(lib, r), remove(lib, r)], "append", SCHEMA),
        "DELTA_INVALID_ADD_ACTION",
    ),
    "both kinds of removes": (
        lambda t, lib, r: t.create_write_transaction(
            [remove(lib, r), remove(lib, r, "b", data_change=False)], "append", SCHEMA
        ),
        "DELTA_INVALID_ADD_ACTION",
    ),
    "no action": (lambda t, lib, r: t.create_write_transaction(["x"], "append", SCHEMA), "DELTA_INVALID_ADD_ACTION"),
    "missing file": (
        lambda t, lib, r: t.create_write_transaction([add(lib, r, path="z.parquet")], "append", SCHEMA),
        "DELTA_INVALID_ADD_ACTION",
    ),
    "file in the table": (
        lambda t, lib, r: t.create_write_transaction(
            [add(lib, r, path=remove(lib, r).path), remove(lib, r)], "append", SCHEMA
        ),
        "DELTA_INVALID_ADD_ACTION",
    ),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_refused(tmp_path: Path, call: str) -> None:
    table = DeltaTable(made(tmp_path))
    do, code = REFUSED[call]
    with pytest.raises(DeltaError) as refusal:
        do(table, LIBRARY, tmp_path)
    assert refusal.value.code == code
    assert DeltaTable(tmp_path).version() == 0


def test_files_have_the_columns_that_are_not_null(tmp_path: Path) -> None:
    table = DeltaTable(made(tmp_path))
    table.alter.set_column_not_null("id")
    with pytest.raises(DeltaError, match="lacks id; expected all NOT NULL columns") as refusal:
        CALLS["fewer columns"](table, LIBRARY, tmp_path)
    assert refusal.value.code == "DELTA_SCHEMA_MISMATCH"
    CALLS["append"](table, LIBRARY, tmp_path)
    assert sorted(read_by_all(tmp_path)["id"].to_pylist()) == [1, 2, 7]


@pytest.mark.parametrize(
    ("configuration", "call", "code"),
    [
        ({"delta.appendOnly": "true"}, "remove", "DELTA_APPEND_ONLY"),
        ({"delta.appendOnly": "true"}, "overwrite", "DELTA_APPEND_ONLY"),
        ({"delta.columnMapping.mode": "name"}, "append", "DELTA_UNSUPPORTED_FEATURE"),
        ({"delta.constraints.c": "id > 0"}, "append", "DELTA_UNSUPPORTED_FEATURE"),
    ],
)
def test_tables_that_refuse_file_actions(tmp_path: Path, configuration: dict[str, str], call: str, code: str) -> None:
    table = DeltaTable(made(tmp_path, **configuration))
    with pytest.raises(DeltaError) as refusal:
        CALLS[call](table, LIBRARY, tmp_path)
    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("mode", "actions", "rival", "conflicts"),
    [
        ("append", "add", "append", False),
        ("append", "add", "delete", False),
        ("append", "remove", "append", False),
        ("append", "remove", "delete", True),
        ("overwrite", "add", "append", True),
    ],
)
def test_conflicts(tmp_path: Path, mode: str, actions: str, rival: str, conflicts: bool) -> None:
    table = DeltaTable(made(tmp_path))
    action = add(LIBRARY, tmp_path) if actions == "add" else remove(LIBRARY, tmp_path)
    if rival == "append":
        write_deltalake(tmp_path, pa.table({"id": [9], "p": ["a"]}), mode="append")
    else:
        DeltaTable(tmp_path).delete("id = 1")

    def run() -> None:
        commit_actions(table.snapshot, [action], mode, Schema.from_arrow(SCHEMA))

    if conflicts:
        with pytest.raises(CommitFailedError):
            run()
    else:
        run()
    assert DeltaTable(tmp_path).version() == (1 if conflicts else 2)
