"""Partial overwrites: the same rows as delta-rs by a predicate, whole partitions, on both engines."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse_lib import CommitProperties, DeltaTable, Field, Transaction, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.errors import ConstraintViolatedError, DeltaError
from lakehouse_lib.operations.write.write import Write, write
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import load_snapshot
from tests.deletion_vector_bytes import delete_by_vector, inline
from tests.fault_store import FaultStore
from tests.lakehouse_lib.operations.write.overwrite_cases import ROWS, made, rows
from tests.peers import parquet_files, plain, read_by_all, read_delta_rs
from tests.slow_cases import some_slow

VECTORS = {"delta.enableDeletionVectors": "true"}
ROW_IDS = {"delta.enableRowTracking": "true"}
MAPPING = {"delta.columnMapping.mode": "name"}


def read(root: Path, properties: dict[str, str]) -> pa.Table:
    """The rows; delta-rs does not read column mapping, and DuckDB not its partition columns."""
    return plain(DeltaTable(root).to_pyarrow_table()) if properties == MAPPING else read_by_all(root)


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return plain(table).to_pylist()


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "part = 'p1'": lambda row: row["part"] == "p1",
    "part IN ('p0', 'p2') AND count < 10": lambda row: row["part"] != "p1" and (row["count"] or 99) < 10,
    "id >= 150 AND id < 260": lambda row: 150 <= row["id"] < 260,
    "name IS NULL": lambda row: row["name"] is None,
    "count > 40 OR name = 'name 3'": lambda row: (row["count"] or 0) > 40 or row["name"] == "name 3",
    "NOT (count > 5)": lambda row: row["count"] is not None and row["count"] <= 5,
    "id < 0": lambda row: row["id"] < 0,
    "name LIKE 'name 1%'": lambda row: (row["name"] or "").startswith("name 1"),
}


@pytest.mark.parametrize("properties", some_slow([VECTORS, {}, ROW_IDS], 1), ids=["vectors", "copies", "ids"])
@pytest.mark.parametrize("seed", some_slow(range(6), 1))
def test_beside_delta_rs(tmp_path: Path, seed: int, properties: dict[str, str]) -> None:
    """Some overwrites in a row; after each, both tables have the same rows."""
    chance = random.Random(seed)
    partition_by = chance.choice([None, ["part"]])
    own, peer = tmp_path / "ours", tmp_path / "theirs"
    made(own, partition_by=partition_by, **properties)
    made(peer, partition_by=partition_by)
    for number in range(4):
        condition = chance.choice(list(CONDITIONS))
        candidates = rows(1000 + 100 * number, 300).to_pylist() + rows(chance.randrange(500), 50).to_pylist()
        chosen = [row for row in candidates if CONDITIONS[condition](row)]
        chosen += [row for row in [candidates[-1] | {"id": -number}] if CONDITIONS[condition](row)]
        data = pa.Table.from_pylist(chosen if chance.random() < 0.8 else [], schema=rows().schema)
        write_deltalake(own, data, mode="overwrite", predicate=condition)
        deltalake.write_deltalake(peer, data, mode="overwrite", predicate=condition)
        assert read_by_all(own).to_pylist() == read_delta_rs(peer).to_pylist(), condition


@pytest.mark.parametrize("properties", [{}, VECTORS, ROW_IDS, MAPPING], ids=["copies", "vectors", "ids", "mapping"])
@pytest.mark.parametrize("partition_by", [None, ["part"]], ids=["whole", "partitioned"])
def test_only_matching_files_change(
    tmp_path: Path, engine: Engine, properties: dict[str, str], partition_by: list[str] | None
) -> None:
    made(tmp_path, partition_by=partition_by, **properties)
    table = DeltaTable(tmp_path)
    before = set(table.files()["path"].to_pylist())
    new = rows(310, 3)
    write_deltalake(table, new, mode="overwrite", predicate="id >= 310 AND id < 320", engine=engine)
    after = set(table.files()["path"].to_pylist())
    uses_vectors = properties == VECTORS
    assert len(before - after) == (not uses_vectors)
    expected = pa.concat_tables([rows(0, 313), rows(320, 280)])
    assert sorted_rows(read(tmp_path, properties)) == sorted_rows(expected)
    (commit,) = table.history(1)
    metrics = {name: int(number) for name, number in commit["operationMetrics"].items()}
    assert (commit["operation"], commit["isBlindAppend"]) == ("WRITE", False)
    assert commit["operationParameters"]["mode"] == "Overwrite"
    assert commit["operationParameters"]["predicate"] == "id >= 310 AND id < 320"
    assert metrics["numDeletedRows"] == 10
    assert metrics["numOutputRows"] == 3 + metrics["numCopiedRows"]
    assert metrics["numFiles"] == len(after - before)
    assert metrics["numRemovedFiles"] == (not uses_vectors)
    assert metrics["numDeletionVectorsAdded"] == uses_vectors


def test_a_partition_is_removed_without_reading_it(tmp_path: Path) -> None:
    made(tmp_path, partition_by=["part"], **VECTORS)
    opened_paths: list[str] = []
    store = FaultStore(str(tmp_path), before={"open_input": opened_paths.append})
    new = rows(5000).filter(pc.equal(rows(5000)["part"], "p1"))
    options = Write(mode="overwrite", predicate="part = 'p1'")
    result = write(store, incoming(new), options, ArrowEngine(), snapshot=load_snapshot(store))
    assert [path for path in opened_paths if not path.startswith("_delta_log/")] == []
    assert result.metrics["numDeletedRows"] == 200
    assert result.metrics["numDeletionVectorsAdded"] == 0
    others = rows(0, 3 * ROWS).filter(pc.not_equal(rows(0, 3 * ROWS)["part"], "p1"))
    assert sorted_rows(read_by_all(tmp_path)) == sorted_rows(pa.concat_tables([others, new]))


def test_copied_rows_keep_their_ids_and_new_rows_get_new_ids(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, **ROW_IDS)
    table = DeltaTable(tmp_path)
    before = {row["id"]: row["_metadata.row_id"] for row in pa.table(table.scan(row_ids=True)).to_pylist()}
    write_deltalake(table, rows(0, 10), mode="overwrite", predicate="id < 10", engine=engine)
    after = {row["id"]: row["_metadata.row_id"] for row in pa.table(table.scan(row_ids=True)).to_pylist()}
    assert {key: number for key, number in after.items() if key >= 10} == {
        key: number for key, number in before.items() if key >= 10
    }
    assert min(number for key, number in after.items() if key < 10) > max(before.values())


def test_hidden_rows_stay_hidden(tmp_path: Path) -> None:
    table = made(tmp_path, files=1, **VECTORS)
    (path,) = table.files()["path"].to_pylist()
    delete_by_vector(tmp_path, {path: inline(range(100))})
    write_deltalake(tmp_path, rows(1000, 1), mode="overwrite", predicate="id < 150 OR id = 1000")
    assert sorted(row["id"] for row in read_by_all(tmp_path).to_pylist()) == [*range(150, ROWS), 1000]
    assert DeltaTable(tmp_path).history(1)[0]["operationMetrics"]["numDeletedRows"] == "50"


def test_a_spark_dataframe(tmp_path: Path, spark: Any) -> None:
    made(tmp_path, partition_by=["part"], **VECTORS)
    frame = spark.createDataFrame(rows(20, 5))
    write_deltalake(tmp_path, frame, mode="overwrite", predicate="upper(name) LIKE 'NAME _' AND id < 25 OR id < 25")
    assert sorted_rows(read_by_all(tmp_path)) == sorted_rows(rows(20, 3 * ROWS - 20))
    before = parquet_files(tmp_path)
    with pytest.raises(ConstraintViolatedError) as refusal:
        write_deltalake(tmp_path, spark.createDataFrame(rows(0, 50)), mode="overwrite", predicate="left(id, 1) = '2'")
    assert "39 rows, such as {'id': 0, " in refusal.value.message
    assert parquet_files(tmp_path) == before
    write_deltalake(tmp_path, spark.createDataFrame(rows(0, 1)), mode="overwrite", partition_overwrite_mode="dynamic")
    others = rows(20, 3 * ROWS - 20)
    others = others.filter(pc.not_equal(others["part"], "p0"))
    assert sorted_rows(read_by_all(tmp_path)) == sorted_rows(pa.concat_tables([others, rows(0, 1)]))


def test_rows_that_do_not_satisfy_the_predicate_are_refused(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, **VECTORS)
    before = parquet_files(tmp_path)
    data = pa.concat_tables([rows(0, 30), rows(8, 1).set_column(0, "id", pa.nulls(1, pa.int64()))])
    with pytest.raises(ConstraintViolatedError) as refusal:
        write_deltalake(tmp_path, data, mode="overwrite", predicate="id < 15", engine=engine)
    assert refusal.value.code == "DELTA_REPLACE_WHERE_MISMATCH"
    message = refusal.value.message
    assert message.startswith("the data violates the predicate 'id < 15': 16 ")
    assert message.count("{") == 10
    assert "{'id': 15, 'part': 'p0', 'name': 'name 2', 'count': 15}" in message
    assert DeltaTable(tmp_path).version() == 2
    assert parquet_files(tmp_path) == before


BAD: list[tuple[dict[str, Any], str]] = [
    ({"predicate": "id = 0", "mode": "append"}, "DELTA_INVALID_WRITE_MODE"),
    ({"predicate": "id = 0", "mode": "ignore"}, "DELTA_INVALID_WRITE_MODE"),
    ({"predicate": "id = 0", "partition_overwrite_mode": "dynamic"}, "DELTA_INVALID_WRITE_MODE"),
    ({"partition_overwrite_mode": "dynamic", "mode": "append"}, "DELTA_INVALID_WRITE_MODE"),
    ({"partition_overwrite_mode": "dynamic", "schema_mode": "overwrite"}, "DELTA_INVALID_WRITE_MODE"),
    ({"partition_overwrite_mode": "dynamic"}, "DELTA_INVALID_WRITE_MODE"),
    ({"partition_overwrite_mode": "Dynamic"}, "DELTA_INVALID_WRITE_MODE"),
    ({"predicate": [("id", "=", 0)]}, "DELTA_INVALID_ARGUMENT"),
    ({"predicate": ""}, "DELTA_INVALID_PREDICATE"),
    ({"predicate": "nope = 1"}, "DELTA_PREDICATE_COLUMN_NOT_FOUND"),
    ({"predicate": "extra = 1", "schema_mode": "merge"}, "DELTA_PREDICATE_COLUMN_NOT_FOUND"),
    ({"predicate": "initcap(name) = 'X'"}, "DELTA_PREDICATE_NEEDS_SPARK"),
    ({"predicate": "id = 0 OR id IS NULL"}, "DELTA_CONSTRAINT_VIOLATED"),
]


@pytest.mark.parametrize(("arguments", "code"), BAD)
def test_bad_input_changes_nothing(tmp_path: Path, arguments: dict[str, Any], code: str) -> None:
    fields = [Field(field.name, field.type, field.name != "id") for field in Schema.from_arrow(rows().schema).fields]
    DeltaTable.create(tmp_path, Schema(fields))
    write_deltalake(tmp_path, rows(), mode="append")
    before = parquet_files(tmp_path)
    data = pa.concat_tables([rows(0, 1), rows(0, 1).set_column(0, "id", pa.nulls(1, pa.int64()))])
    if "schema_mode" in arguments:
        data = data.append_column("extra", pa.array([1, 1]))
    with pytest.raises(DeltaError) as refusal:
        write_deltalake(tmp_path, data, **{"mode": "overwrite", **arguments})
    assert refusal.value.code == code
    assert DeltaTable(tmp_path).version() == 1
    assert parquet_files(tmp_path) == before


@pytest.mark.parametrize("options", [{"predicate": "id = 0"}, {"partition_overwrite_mode": "dynamic"}])
def test_an_append_only_table_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    made(tmp_path, files=1, partition_by=["part"], **{"delta.appendOnly": "true"})
    before = parquet_files(tmp_path)
    with pytest.raises(DeltaError) as refusal:
        write_deltalake(tmp_path, rows(0, 1), mode="overwrite", **options)
    assert refusal.value.code == "DELTA_APPEND_ONLY"
    assert parquet_files(tmp_path) == before


def test_new_columns_are_added(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, files=1, **MAPPING)
    more = rows(0, 1).append_column("extra", pa.array(["x"]))
    write_deltalake(tmp_path, more, mode="overwrite", predicate="id < 10", schema_mode="merge", engine=engine)
    read = DeltaTable(tmp_path).to_pyarrow_table().sort_by("id")
    assert read["extra"].to_pylist() == ["x"] + [None] * (ROWS - 10)
    assert read["id"].to_pylist() == [0, *range(10, ROWS)]


OVERWRITTEN: dict[str, tuple[pa.Table, str | None]] = {
    "same columns": (pa.table({"id": [1, 1], "v": [7, 8]}), None),
    "another order": (pa.table({"v": [7], "id": [1]}), None),
    "a new column": (pa.table({"id": [1], "v": [7], "w": ["x"]}), None),
    "a dropped column": (pa.table({"id": [1], "w": ["x"]}), "for the column v the data lacks it"),
    "a wider type": (pa.table({"id": [1], "v": [7.5]}), "v"),
    "a narrower type": (pa.table({"id": [1], "v": pa.array([7], pa.int32())}), "the data has the type integer"),
}


@pytest.mark.parametrize("case", OVERWRITTEN)
def test_the_schema_is_overwritten_if_the_remaining_rows_fit_it(tmp_path: Path, case: str) -> None:
    """delta-rs accepts all of them, and leaves files whose types contradict the schema."""
    data, refusal = OVERWRITTEN[case]
    arguments: dict[str, Any] = {"mode": "overwrite", "predicate": "id = 1", "schema_mode": "overwrite"}
    for name, writer in (("ours", write_deltalake), ("theirs", deltalake.write_deltalake)):
        writer(tmp_path / name, pa.table({"id": [1, 2], "v": [10, 20]}))
        writer(tmp_path / name, pa.table({"id": [5], "v": [50]}), mode="append")
    before = parquet_files(tmp_path / "ours")
    if refusal is not None:
        with pytest.raises(DeltaError, match=refusal):
            write_deltalake(tmp_path / "ours", data, **arguments)
        assert parquet_files(tmp_path / "ours") == before
        return
    write_deltalake(tmp_path / "ours", data, **arguments)
    deltalake.write_deltalake(tmp_path / "theirs", data, **arguments)
    assert read_by_all(tmp_path / "ours") == plain(read_delta_rs(tmp_path / "theirs"))


def test_a_new_table(tmp_path: Path) -> None:
    with pytest.raises(ConstraintViolatedError):
        write_deltalake(tmp_path / "a", rows(), mode="overwrite", predicate="id > 0")
    assert not DeltaTable.is_deltatable(tmp_path / "a")
    assert parquet_files(tmp_path) == set()
    write_deltalake(tmp_path / "a", rows(), mode="overwrite", predicate="id >= 0")
    assert DeltaTable(tmp_path / "a").count() == ROWS
    dynamic: dict[str, Any] = {"mode": "overwrite", "partition_overwrite_mode": "dynamic"}
    write_deltalake(tmp_path / "b", rows(), partition_by="part", **dynamic)
    assert DeltaTable(tmp_path / "b").count() == ROWS


def test_a_write_without_rows_makes_a_commit(tmp_path: Path) -> None:
    made(tmp_path, files=1, partition_by=["part"])
    for number, options in enumerate([{"predicate": "id < 0"}, {"partition_overwrite_mode": "dynamic"}]):
        properties = CommitProperties(app_transactions=[Transaction("job", number)])
        write_deltalake(tmp_path, rows(0, 0), mode="overwrite", commit_properties=properties, **options)
    assert DeltaTable(tmp_path).version() == 2
    assert DeltaTable(tmp_path).transaction_version("job") == 1
    assert DeltaTable(tmp_path).count() == ROWS


class TestDynamic:
    """Only the partitions that occur in the data are replaced."""

    @pytest.mark.parametrize("properties", [{}, MAPPING], ids=["plain", "mapping"])
    def test_partitions_of_two_columns(self, tmp_path: Path, engine: Engine, properties: dict[str, str]) -> None:
        days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None]
        groups = [None, "a'b", "c d"]
        start = [{"day": day, "group": group, "n": 1} for day in days for group in groups]
        schema = pa.schema([("day", pa.date32()), ("group", pa.string()), ("n", pa.int64())])
        data = pa.Table.from_pylist(start, schema=schema)
        write_deltalake(tmp_path, data, partition_by=["day", "group"], configuration=properties)
        new = [
            {"day": days[0], "group": None, "n": 2},
            {"day": None, "group": "a'b", "n": 2},
            {"day": dt.date(2027, 1, 1), "group": "c d", "n": 2},
        ]
        table = DeltaTable(tmp_path)
        before = set(table.files()["path"].to_pylist())
        write_deltalake(
            table,
            pa.Table.from_pylist(new, schema=schema),
            mode="overwrite",
            partition_overwrite_mode="dynamic",
            engine=engine,
        )
        replaced = {(row["day"], row["group"]) for row in new}
        others = [row for row in start if (row["day"], row["group"]) not in replaced]
        expected = pa.Table.from_pylist(others + new, schema=schema)
        assert sorted_rows(read(tmp_path, properties)) == sorted_rows(expected)
        assert len(before & set(table.files()["path"].to_pylist())) == 7
        (commit,) = table.history(1)
        assert commit["operationParameters"]["isDynamicPartitionOverwrite"] == "true"

    @pytest.mark.parametrize(
        "values",
        [
            pa.array([b"x", b"y"], pa.binary()),
            pa.array([0.5, float("nan")], pa.float64()),
            pa.array([1, 2], pa.timestamp("us", tz="UTC")),
            pa.array([True, None]),
            pa.array([1, 200], pa.decimal128(9, 2)),
            pa.array([1, 0.1], pa.float32()),
            pa.array([1, 0.1], pa.float64()),
        ],
        ids=lambda values: str(values.type),
    )
    def test_every_type_of_partition_column(self, tmp_path: Path, values: pa.Array) -> None:
        write_deltalake(tmp_path, pa.table({"p": values, "n": [1, 1]}), partition_by="p")
        data = pa.table({"p": values.slice(1), "n": [2]})
        write_deltalake(tmp_path, data, mode="overwrite", partition_overwrite_mode="dynamic")
        assert sorted(DeltaTable(tmp_path).to_pyarrow_table()["n"].to_pylist()) == [1, 2]
        assert len(DeltaTable(tmp_path).files()) == 2


@pytest.mark.parametrize("rule", ["part = ''", "part is not null"])
def test_a_rule_sees_null_for_empty_text_in_a_partition_column(tmp_path: Path, engine: Engine, rule: str) -> None:
    constraints = {"delta.constraints.c": rule}
    data = pa.table({"part": [""], "id": [1]})
    with pytest.raises(ConstraintViolatedError):
        write_deltalake(tmp_path / "new", data, partition_by=["part"], configuration=constraints, engine=engine)
    made(tmp_path / "old", files=1, partition_by=["part"])
    with pytest.raises(ConstraintViolatedError):  # else each repetition would add the row once more
        write_deltalake(tmp_path / "old", data, mode="overwrite", predicate=rule, engine=engine)
    table = DeltaTable(tmp_path / "old", engine=engine)
    table.alter.add_constraint({"c": "part is not null"})
    with pytest.raises(ConstraintViolatedError):
        table.update({"part": "''"}, predicate="id = 3")


def test_delta_rs_reads_an_overwritten_table_and_writes_to_it(tmp_path: Path) -> None:
    own, peer = tmp_path / "ours", tmp_path / "theirs"
    made(peer, partition_by=["part"])
    shutil.copytree(peer, own)
    for target in (own, peer):
        write_deltalake(target, rows(0, 5), mode="overwrite", predicate="id < 20")
        deltalake.write_deltalake(target, rows(100, 5), mode="overwrite", predicate="id >= 100 AND id < 150")
    assert read_by_all(own).equals(read_by_all(peer))
