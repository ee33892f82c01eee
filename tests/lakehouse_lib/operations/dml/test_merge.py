"""MERGE: the same rows and counts as delta-rs' merge, on both engines, with and without deletion vectors."""

from __future__ import annotations

import random
import shutil
from decimal import Decimal
from pathlib import Path

import deltalake
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.merge import sides as merge_sides
from lakehouse_lib.engine.parquet.merge.key_join import common_type
from lakehouse_lib.errors import MetadataChangedError
from lakehouse_lib.table.verbs.merger import TableMerger
from tests.fault_store import FaultStore
from tests.lakehouse_lib.operations.dml.merge_cases import ON, ROWS, Clause, made, rows, run, source
from tests.peers import plain, read_by_all, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow

VECTORS = {"delta.enableDeletionVectors": "true"}
IDS = {"delta.enableRowTracking": "true"}
CLAUSES: list[Clause] = [
    ("when_matched_update_all", {}),
    ("when_matched_update_all", {"predicate": "source.amount < -300", "except_cols": ["part"]}),
    ("when_matched_update", {"updates": {"amount": "target.amount + source.amount"}}),
    ("when_matched_update", {"updates": {"name": "'x'", "part": "source.part"}, "predicate": "target.name IS NULL"}),
    ("when_matched_delete", {"predicate": "source.id % 4 = 1"}),
    ("when_matched_delete", {}),
    ("when_not_matched_insert_all", {}),
    ("when_not_matched_insert_all", {"predicate": "source.id > 620"}),
    ("when_not_matched_insert", {"updates": {"id": "source.id", "name": "'only'"}, "predicate": "source.id < 610"}),
    ("when_not_matched_by_source_delete", {"predicate": "target.amount > 700"}),
    ("when_not_matched_by_source_update", {"updates": {"amount": "0.0"}, "predicate": "target.id % 50 = 3"}),
]
CONDITIONS = [
    ON,
    f"{ON} AND target.part = source.part",
    f"{ON} AND target.part = 'p1'",
    f"{ON} AND source.amount < -100",
]
COUNTS = [
    "num_source_rows",
    "num_target_rows_inserted",
    "num_target_rows_updated",
    "num_target_rows_deleted",
]


@pytest.mark.parametrize("seed", some_slow(range(16), 1))
def test_beside_delta_rs(tmp_path: Path, seed: int) -> None:
    """Some merges in a row; after each, both tables have the same rows."""
    chance = random.Random(seed)
    partition_by = chance.choice([None, ["part"]])
    own, peer = tmp_path / "ours", tmp_path / "theirs"
    made(peer, partition_by=partition_by)
    shutil.copytree(peer, own)
    table = DeltaTable(own)
    for _ in range(3):
        clauses = chance.sample(CLAUSES, chance.randint(1, 4))
        condition = chance.choice(CONDITIONS)
        ids = chance.sample(range(700), chance.choice([0, 1, 5, 60]))
        data = source([*ids, None] if chance.random() < 0.3 else ids)
        metrics = run(table, data, condition, clauses)
        expected = run(deltalake.DeltaTable(peer), data, condition, clauses)
        assert read_by_all(own).to_pylist() == read_delta_rs(peer).to_pylist(), (condition, clauses, ids)
        assert {name: metrics[name] for name in COUNTS} == {name: expected[name] for name in COUNTS}


@pytest.mark.parametrize("properties", [{}, VECTORS, IDS], ids=["copies", "vectors", "ids"])
@pytest.mark.parametrize("partition_by", [None, ["part"]], ids=["whole", "partitioned"])
def test_upsert(tmp_path: Path, engine: Engine, properties: dict[str, str], partition_by: list[str] | None) -> None:
    made(tmp_path, partition_by=partition_by, **properties)
    table = DeltaTable(tmp_path, engine=engine)
    before = set(table.files()["path"].to_pylist())
    data = source([210, 211, 5000])
    metrics = run(table, data, ON, [("when_matched_update_all", {}), ("when_not_matched_insert_all", {})])
    others = rows(0, 3 * ROWS).filter(pc.invert(pc.is_in(rows(0, 3 * ROWS)["id"], value_set=data["id"])))
    assert read_by_all(tmp_path).equals(plain(pa.concat_tables([others, data])))
    assert (metrics["num_target_rows_updated"], metrics["num_target_rows_inserted"]) == (2, 1)
    after = set(table.files()["path"].to_pylist())
    assert len(before - after) == metrics["num_target_files_removed"] == (properties != VECTORS)
    assert metrics["num_deletion_vectors"] == (properties == VECTORS)
    (commit,) = table.history(1)
    assert (commit["operation"], commit["operationMetrics"]["numTargetRowsUpdated"]) == ("MERGE", "2")
    if properties == IDS:
        ids = {row["id"]: row["_metadata.row_id"] for row in pa.table(table.scan(row_ids=True)).to_pylist()}
        assert (ids[210], ids[211]) == (210, 211)
        assert len(set(ids.values())) == len(ids) == 3 * ROWS + 1


def test_a_merge_that_only_inserts_writes_no_row_again(tmp_path: Path) -> None:
    table = made(tmp_path)
    before = table.files()["path"].to_pylist()
    metrics = run(table, source([5, 900, 901]), ON, [("when_not_matched_insert_all", {})])
    assert (metrics["num_target_rows_inserted"], metrics["num_target_files_removed"]) == (2, 0)
    assert set(before) < set(table.files()["path"].to_pylist())
    assert table.count() == 3 * ROWS + 2
    again = run(table, source([5, 900, 901]), ON, [("when_not_matched_insert_all", {})])
    assert again["version"] == metrics["version"]


def test_only_files_with_keys_of_the_source_are_read(tmp_path: Path) -> None:
    made(tmp_path, files=5)
    store = FaultStore(str(tmp_path))
    table = DeltaTable(tmp_path)
    table.store = store
    for ids in ([405], list(range(410, 600))):
        metrics = run(table, source(ids), ON, [("when_matched_update_all", {})])
        assert metrics["num_target_files_scanned"] < 5
        assert metrics["num_target_files_skipped_during_scan"] >= 3


def test_sources_of_every_kind(tmp_path: Path) -> None:
    table = made(tmp_path / "t", files=1)
    data = source([1, 2])
    other = tmp_path / "other"
    write_deltalake(other, data)
    sources = [data, data.to_reader(), data.to_batches()[0], data.to_pandas(), pl.from_arrow(data), DeltaTable(other)]
    for number, rows_of_source in enumerate(sources):
        updates = {"amount": f"source.amount + {number}"}
        run(table, rows_of_source, ON, [("when_matched_update", {"updates": updates})])
        assert table.to_pyarrow_table(filters="id = 2")["amount"].to_pylist() == [-2.0 + number]
    assert isinstance(sources[3], pd.DataFrame)


def test_the_table_is_its_own_source(tmp_path: Path) -> None:
    table = made(tmp_path, files=1)
    run(table, DeltaTable(tmp_path), ON, [("when_matched_update", {"updates": {"amount": "source.amount + 1"}})])
    assert table.to_pyarrow_table(filters="id = 10")["amount"].to_pylist() == [16.0]


def test_other_conditions_than_equal_keys(tmp_path: Path) -> None:
    table = made(tmp_path, files=1)
    ranges = pa.table({"low": [10, 100], "high": [20, 110], "label": ["a", "b"]})
    merger = table.merge(ranges, "t.id >= s.low AND t.id < s.high", "s", "t")
    metrics = merger.when_matched_update({"name": "s.label"}).execute()
    assert metrics["num_target_rows_updated"] == 20
    read = table.to_pyarrow_table()
    assert [row["id"] for row in read.to_pylist() if row["name"] == "a"] == list(range(10, 20))
    assert table.merge(ranges, "false", "s", "t").when_matched_delete().execute()["version"] == metrics["version"]


@pytest.mark.parametrize("kind", ["float64", "string", "date32", "decimal128(9, 2)", "timestamp[us, tz=UTC]", "bool"])
def test_keys_of_every_type(tmp_path: Path, kind: str) -> None:
    numbers = pa.array([0, 1, None, 2], pa.int32())
    types = {"decimal128(9, 2)": pa.decimal128(9, 2), "timestamp[us, tz=UTC]": pa.timestamp("us", tz="UTC")}
    target_type = types.get(kind) or getattr(pa, {"bool": "bool_"}.get(kind, kind))()
    keys = (
        pa.array(numbers.to_pylist(), pa.int64()).cast(pa.decimal128(19, 0)).cast(target_type)
        if "decimal" in kind
        else (numbers.cast(pa.int64()).cast(target_type) if "timestamp" in kind else numbers.cast(target_type))
    )
    table_rows = pa.table({"k": keys, "v": ["t0", "t1", "t-", "t2"]})
    write_deltalake(tmp_path, table_rows.slice(0, 3) if kind == "bool" else table_rows)
    table = DeltaTable(tmp_path)
    data = table_rows.slice(1, 2).set_column(1, "v", pa.array(["s1", "s-"]))
    clauses: list[Clause] = [("when_matched_update_all", {}), ("when_not_matched_insert_all", {})]
    metrics = run(table, data, "target.k = source.k", clauses)
    assert (metrics["num_target_rows_updated"], metrics["num_target_rows_inserted"]) == (1, 1)  # NULL equals nothing


def test_void_columns_match_no_row(tmp_path: Path) -> None:
    """NULL is equal to nothing; only ``<=>`` is true."""
    rows_of_nulls = pa.table({"id": [1, 2], "v": pa.nulls(2)})
    for condition in ("target.v = source.v", "target.id = source.id AND target.v = source.v"):
        write_deltalake(tmp_path / "t", rows_of_nulls, mode="overwrite")
        merger = DeltaTable(tmp_path / "t").merge(
            rows_of_nulls, condition, source_alias="source", target_alias="target"
        )
        result = merger.when_matched_delete().when_not_matched_insert_all().execute()
        assert (result["num_target_rows_deleted"], result["num_target_rows_inserted"]) == (0, 2)
    assert DeltaTable(tmp_path / "t").delete("v = v OR v < v")["num_deleted_rows"] == 0
    assert DeltaTable(tmp_path / "t").delete("v <=> v AND id = 1")["num_deleted_rows"] == 2


def test_several_source_rows_may_delete_one_row(tmp_path: Path) -> None:
    table = made(tmp_path, files=1)
    assert run(table, source([1, 1, 2]), ON, [("when_matched_delete", {})])["num_target_rows_deleted"] == 2
    assert table.count() == ROWS - 2


def merger_of_a_stale_table(root: Path, data: pa.Table) -> TableMerger:
    """An upsert that plans on the present version, whatever is committed before it is executed."""
    table = DeltaTable(root)
    table._latest = lambda: table.snapshot  # type: ignore[method-assign]
    return table.merge(data, ON, "source", "target").when_matched_update_all().when_not_matched_insert_all()


def test_a_merge_runs_on_the_latest_version(tmp_path: Path) -> None:
    table = made(tmp_path, files=1)
    merger = table.merge(source([777]), ON, "source", "target").when_matched_delete()
    write_deltalake(tmp_path, source([777]), mode="append")
    assert merger.execute()["num_target_rows_deleted"] == 1
    merger = table.merge(source([5]), ON, "source", "target").when_matched_delete()
    more = source([888]).append_column("extra", pa.array([1]))
    write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
    with pytest.raises(MetadataChangedError):
        merger.execute()


def test_a_condition_is_evaluated_for_rows_without_an_earlier_clause(tmp_path: Path) -> None:
    table = made(tmp_path, files=1)
    merger = table.merge(source([100]), ON, "source", "target").when_matched_delete("target.amount > 100")
    merger = merger.when_matched_update({"name": "'q'"}, "target.id * 9223372036854775807 > 1")
    assert merger.execute()["num_target_rows_deleted"] == 1


def test_keys_of_different_types_and_far_times(tmp_path: Path) -> None:
    micros = pa.array([253402300800000005, 0, 86_400_000_000], pa.int64())
    data = pa.table(
        {
            "i": pa.array([1, 2, 3], pa.int64()),
            "t": micros.cast(pa.timestamp("us", tz="UTC")),
            "c": pa.array([1, 2, 3]).cast(pa.decimal128(21, 2)),
        }
    )
    write_deltalake(tmp_path, data)
    pairs = [
        ("target.i = source.f", {"f": pa.array([2.0, float("nan"), 2.5])}, 1),
        ("target.t = source.t", {"t": data["t"]}, 3),
        ("target.t = source.n", {"n": micros.cast(pa.timestamp("us"))}, 3),
        ("target.t = source.d", {"d": pa.array([0, 1], pa.int32()).cast(pa.date32())}, 2),
        ("target.c = source.c", {"c": pa.array([2, 3]).cast(pa.decimal128(23, 4))}, 2),
        ("target.i = source.c", {"c": pa.array(["2.00", "3.50"]).cast(pa.decimal128(9, 2))}, 1),
        ("target.c = source.i", {"i": pa.array([-2, 3], pa.int32())}, 1),
        ("target.c = source.f", {"f": pa.array([2.0, 2.5])}, 1),
    ]
    for condition, columns, expected in pairs:
        merger = DeltaTable(tmp_path).merge(pa.table(columns), condition).when_matched_update({"i": "target.i"})
        assert merger.execute()["num_target_rows_updated"] == expected, condition
        (left, right) = (part.split(".")[1] for part in condition.split(" = "))
        assert common_type(data.schema.field(left).type, pa.table(columns).schema.field(right).type) is not None


@pytest.mark.slow
def test_one_key_for_many_rows(tmp_path: Path) -> None:
    """Forty million pairs of equal keys, of which each row of the source keeps one."""
    write_deltalake(tmp_path, pa.table({"c": [0] * 40_000, "x": range(40_000), "hit": [0] * 40_000}))
    data = pa.table({"c": [0] * 1_000, "low": range(1_000)})
    merger = DeltaTable(tmp_path).merge(data, "target.c = source.c AND target.x = source.low * 3 + 0")
    assert merger.when_matched_update({"hit": "1"}).execute()["num_target_rows_updated"] == 1_000


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copies", "vectors"])
@pytest.mark.parametrize("verb", some_slow(["merge", "compact", "append", "delete", "update"], 2))
def test_concurrent_writers(tmp_path: Path, verb: str, properties: dict[str, str]) -> None:
    """Another writer commits after the merge has read its version: each key exists once, with the merge's value."""
    made(tmp_path, **properties)
    data = source([5, 205, 700, 800])
    clauses: list[Clause] = [("when_matched_update_all", {}), ("when_not_matched_insert_all", {})]
    others = {
        "append": lambda table: write_deltalake(table, rows(3 * ROWS, 150), mode="append"),
        "compact": lambda table: table.optimize.compact(),
        "delete": lambda table: table.delete("id = 205"),
        "update": lambda table: table.update({"name": "'theirs'"}, predicate="id < 10"),
        "merge": lambda table: run(table, source([5, 6, 800], name=["o", "o", "o"]), ON, clauses),
    }
    merger = merger_of_a_stale_table(tmp_path, data)
    others[verb](DeltaTable(tmp_path))
    merger.execute()
    read = {row["id"]: row for row in read_by_all(tmp_path).to_pylist()}
    assert len(read) == DeltaTable(tmp_path).count()
    assert [read[number] for number in (5, 205, 700, 800)] == data.to_pylist()
    if verb in ("update", "merge"):
        assert read[6]["name"] == {"update": "theirs", "merge": "o"}[verb]


def test_merges_of_different_keys_do_not_conflict(tmp_path: Path) -> None:
    made(tmp_path, **VECTORS)
    merger = merger_of_a_stale_table(tmp_path, source([5]))
    clauses: list[Clause] = [("when_matched_update_all", {}), ("when_not_matched_insert_all", {})]
    run(DeltaTable(tmp_path), source([450, 901]), ON, clauses)
    assert merger.execute()["version"] == 4
    (commit,) = DeltaTable(tmp_path).history(1)
    assert commit["readVersion"] == 2


FAR = 1 << 53


@pytest.mark.parametrize("partition_by", [None, ["k"]])
@pytest.mark.parametrize(
    ("target", "key"),
    [
        (pa.array([FAR + 1]), pa.array([float(FAR)])),
        (pa.array([Decimal("0.1")], pa.decimal128(3, 1)), pa.array([0.1])),
        (pa.array([Decimal(FAR + 1)], pa.decimal128(20, 0)), pa.array([float(FAR)])),
        (pa.array([0.1]), pa.array([Decimal("0.1")], pa.decimal128(3, 1))),
        (pa.array([float(FAR)]), pa.array([FAR + 1])),
        (pa.array([7]), pa.array([7.0])),
    ],
)
def test_keys_that_are_equal_as_doubles(
    tmp_path: Path, target: pa.Array, key: pa.Array, partition_by: list[str] | None
) -> None:
    write_deltalake(tmp_path, pa.table({"k": target, "v": ["old"]}), partition_by=partition_by)
    merger = DeltaTable(tmp_path).merge(pa.table({"k": key, "v": ["new"]}), "target.k = source.k")
    merger = merger.when_matched_update({"v": "source.v"}).when_not_matched_insert({"v": "source.v"})
    metrics = merger.execute()
    assert (metrics["num_target_rows_updated"], metrics["num_target_rows_inserted"]) == (1, 0)


@pytest.mark.slow
def test_wide_values_of_the_source_for_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_sides, "_PORTION_BYTES", 10_000)
    write_deltalake(tmp_path, pa.table({"k": [1] * 500 + [2] * 500, "v": ["old"] * 1000}))
    data = pa.table({"k": [1, 3, 4], "v": ["a" * 5_000, "b" * 20_000, "c"]})
    table = DeltaTable(tmp_path)
    clauses: list[Clause] = [
        ("when_matched_update", {"updates": {"v": "source.v"}, "predicate": "length(source.v) + target.k > 10"}),
        ("when_not_matched_insert_all", {}),
    ]
    metrics = run(table, data, "target.k = source.k", clauses)
    assert (metrics["num_target_rows_updated"], metrics["num_target_rows_inserted"]) == (500, 2)
    assert read_by_all(tmp_path)["v"].value_counts().to_pylist() == [
        {"values": "a" * 5_000, "counts": 500},
        {"values": "old", "counts": 500},
        {"values": "b" * 20_000, "counts": 1},
        {"values": "c", "counts": 1},
    ]


def test_names_of_columns_as_in_sql(tmp_path: Path) -> None:
    data = pa.table({"x": [1], "t.x": ["a"], "c`d": ["b"], "`q`": ["c"], "k": [1]})
    write_deltalake(tmp_path, data, configuration={"delta.columnMapping.mode": "name"})
    table = DeltaTable(tmp_path)
    table.update({"`x`": "7", "`t.x`": "'A'", "`c``d`": "'B'", "`q`": "'C'"})
    assert read_duckdb(tmp_path).to_pylist() == [{"x": 7, "t.x": "A", "c`d": "B", "`q`": "C", "k": 1}]
    merger = table.merge(data, "t.k = s.k", "s", "t").when_matched_update_all(except_cols=["t.x"])
    merger.execute()
    assert read_duckdb(tmp_path).to_pylist() == [{"x": 1, "t.x": "A", "c`d": "b", "`q`": "c", "k": 1}]
    table.merge(data, "t.k = s.k", "s", "t").when_matched_update_all(except_cols=["t.`c``d`", "s.x"]).execute()
    table.merge(data, "t.k = s.k", "s", "t").when_matched_update({"t.`t.x`": "'z'", "t.k": "5"}).execute()
    assert read_duckdb(tmp_path).to_pylist() == [{"x": 1, "t.x": "z", "c`d": "b", "`q`": "c", "k": 5}]


def test_members_of_the_source_in_another_order(tmp_path: Path, engine: Engine) -> None:
    place = pa.struct([("city", pa.string()), ("zip", pa.int64())])
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "place": pa.array([{"city": "a", "zip": 1}, None], place)}))
    other = pa.struct([("ZIP", pa.int32()), ("city", pa.string())])
    data = pa.table({"id": [2, 3], "place": pa.array([{"ZIP": 2, "city": "b"}, None], other)})
    table = DeltaTable(tmp_path, engine=engine)
    table.merge(data, "target.id = source.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.to_pyarrow_table().sort_by("id")["place"].to_pylist() == [
        {"city": "a", "zip": 1},
        {"city": "b", "zip": 2},
        None,
    ]
