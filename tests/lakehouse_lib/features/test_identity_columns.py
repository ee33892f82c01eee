"""Identity columns: no number is assigned twice, whatever writes, on both engines."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from lakehouse_lib import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Field,
    Schema,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import (
    CommitFailedError,
    DeltaError,
    InvalidArgumentError,
    InvalidSchemaError,
    MetadataChangedError,
    SchemaMismatchError,
)
from lakehouse_lib.features.computed_columns.identity_columns import synchronize
from lakehouse_lib.operations.alter.identity_mark import sync_identity
from lakehouse_lib.snapshot import load_snapshot
from tests.peers import parquet_files, read_by_all
from tests.slow_cases import some_slow


def identity(start: int = 1, step: int = 1, *, explicit: bool = False) -> dict[str, Any]:
    return {
        "delta.identity.start": start,
        "delta.identity.step": step,
        "delta.identity.allowExplicitInsert": explicit,
    }


SCHEMA = Schema(
    [
        Field("down", "long", nullable=False, metadata=identity(5, -2)),
        Field("up", "long", metadata=identity(explicit=True)),
        Field("name", "string"),
        Field("tens", "long", metadata={"delta.generationExpression": "up * 10"}),
    ]
)


OWN, MOVED = {"team": "data"}, {"delta.identity.schemaUpdate": "true"}


def named(*names: str, **others: Any) -> pa.Table:
    return pa.table({"name": names, **others})


def numbers(path: Path) -> dict[str, tuple[int, int]]:
    rows = read_by_all(path).to_pylist()
    assert all(row["tens"] == row["up"] * 10 for row in rows)
    return {row["name"]: (row["down"], row["up"]) for row in rows}


def marks(table: DeltaTable | Path) -> tuple[Any, ...]:
    schema = (DeltaTable(table) if isinstance(table, Path) else table).schema()
    return tuple(field.metadata.get("delta.identity.highWaterMark") for field in schema.fields[:2])


def test_every_verb_assigns_the_next_numbers(tmp_path: Path, engine: Engine) -> None:
    DeltaTable.create(tmp_path, SCHEMA, configuration={"delta.dataSkippingNumIndexedCols": "0"})
    table = DeltaTable(tmp_path, engine=engine)
    assert table.protocol().min_writer_version == 6
    write_deltalake(table, named("a", "b"), mode="append")
    write_deltalake(table, named("c", up=[100]), mode="append")  # moves no mark
    assert numbers(tmp_path)["c"][1] == 100
    assert marks(tmp_path)[1] < 100
    before = numbers(tmp_path)

    table.update({"name": "'z'"}, predicate="name = 'a'")
    merger = table.merge(named("b", "d", "e"), "target.name = source.name")
    merger.when_matched_update_all().when_not_matched_insert({"name": "name", "up": "7"}, predicate="name = 'd'")
    merger.when_not_matched_insert_all().execute()
    after = numbers(tmp_path)
    assert (after["z"], after["b"], after["c"]) == (before["a"], before["b"], before["c"])
    assert after["d"][1] == 7
    write_deltalake(table, named("f"), mode="overwrite", predicate="name = 'f'")
    write_deltalake(table, named("g"), mode="append")
    last = numbers(tmp_path)
    downs, ups = ([pair[side] for name, pair in last.items() if name not in "cd" or not side] for side in (0, 1))
    assert len(set(downs)) == 7
    assert len(set(ups)) == 5
    assert all(down % 2 == 1 for down in downs)
    assert marks(tmp_path) == (min(downs), max(ups)) == last["g"]
    if engine.name == "arrow":
        assert sorted(downs, reverse=True) == [5, 3, 1, -1, -3, -5, -7]
        assert sorted(ups) == [1, 2, 3, 8, 9]  # after the 7 of the merge


def test_spark_numbers_a_frame_with_many_partitions(tmp_path: Path, spark: SparkSession) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    table = DeltaTable(tmp_path, engine=SparkEngine(spark))
    for start in (0, 1000):
        frame = spark.range(start, start + 1000, 1, 7).selectExpr("CAST(id AS STRING) AS name")
        write_deltalake(table, frame, mode="append")
    assigned = numbers(tmp_path)
    downs, ups = (set(side) for side in zip(*assigned.values(), strict=True))
    assert (len(assigned), len(downs), len(ups)) == (2000, 2000, 2000)
    assert marks(tmp_path) == (min(downs), max(ups))
    assert min(ups) == 1


def test_values_of_the_user_are_refused(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    write_deltalake(tmp_path, named("a"), mode="append")
    table, files = DeltaTable(tmp_path), parquet_files(tmp_path)
    merger = table.merge(named("a", down=[1], up=[1]), "target.name = source.name")
    for verb in (
        lambda: write_deltalake(table, named("b", down=[1]), mode="append"),
        lambda: table.update({"up": "5"}),
        lambda: merger.when_matched_update({"up": "5"}).execute(),
        lambda: merger.when_not_matched_insert_all().execute(),
    ):
        with pytest.raises(InvalidArgumentError, match="value is given for the identity column") as refused:
            verb()
        assert refused.value.code == "DELTA_EXPLICIT_IDENTITY_VALUE"
    assert parquet_files(tmp_path) == files


@pytest.mark.parametrize(("seed", "workers", "writes"), some_slow([(0, 3, 2), (1, 5, 4), (2, 5, 4)], 1))
def test_concurrent_writers_never_get_the_same_number(tmp_path: Path, seed: int, workers: int, writes: int) -> None:
    DeltaTable.create(tmp_path, SCHEMA)

    def work(worker: int) -> None:
        for number in range(writes):
            rows = named(*(f"{worker}-{number}-{row}" for row in range(worker + 1)))
            table = DeltaTable(tmp_path, engine=ArrowEngine(1))
            if (worker + number + seed) % 3:
                write_deltalake(table, rows, mode="append")
            else:
                merger = table.merge(rows, "target.name = source.name")
                merger.when_not_matched_insert_all().execute()
            version = DeltaTable(tmp_path)
            low, high = marks(version)
            assigned = version.to_pyarrow_table(columns=["down", "up"]).to_pydict()
            assert low <= min(assigned["down"])
            assert high >= max(assigned["up"])

    with ThreadPoolExecutor(workers) as pool:
        for result in [pool.submit(work, worker) for worker in range(workers)]:
            result.result()
    assigned = numbers(tmp_path)
    downs, ups = (set(side) for side in zip(*assigned.values(), strict=True))
    assert len(assigned) == len(downs) == len(ups) == writes * sum(range(1, workers + 1))
    assert marks(tmp_path) == (min(downs), max(ups))
    assert parquet_files(tmp_path) == {Path(uri) for uri in DeltaTable(tmp_path).file_uris()}


def racing(path: Path, first: Any, **others: Any) -> Any:
    """A reader of one row, during whose read another writer commits."""
    rows = named("late", **others)

    def batches() -> Any:
        first()
        yield from rows.to_batches()

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def test_a_lost_race_gives_later_numbers(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    write_deltalake(
        tmp_path,
        racing(tmp_path, lambda: write_deltalake(tmp_path, named("a", "b"), mode="append")),
        mode="append",
    )
    assert numbers(tmp_path) == {"a": (5, 1), "b": (3, 2), "late": (1, 3)}
    assert marks(tmp_path) == (1, 3)
    assert len(parquet_files(tmp_path)) == 2


def test_other_metadata_changes_conflict(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    change = racing(tmp_path, lambda: DeltaTable(tmp_path).alter.add_columns([Field("more", "long")]))
    with pytest.raises(MetadataChangedError, match="'more'"):
        write_deltalake(tmp_path, change, mode="append")
    assert not parquet_files(tmp_path)


def test_commits_that_only_move_marks_have_the_tag_of_delta_spark(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path, SCHEMA)
    write_deltalake(table, named("a"), mode="append", commit_properties=CommitProperties(custom_metadata={"tags": OWN}))
    write_deltalake(table, named("b", more=[1]), mode="append", schema_mode="merge")
    table.merge(named("c"), "target.name = source.name").when_not_matched_insert_all().execute()
    table.update({"name": "'d'"}, predicate="name = 'c'")
    tags = [entry.get("tags") for entry in table.history()]
    assert tags == [None, MOVED, None, {**OWN, **MOVED}, None]


def test_new_columns_keep_the_physical_names_of_their_files(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA, configuration={"delta.columnMapping.mode": "name"})
    for mode, text in (("append", "b"), ("overwrite", "c")):
        more = named("a", **{text: [text]})
        write_deltalake(tmp_path, more, mode=mode, schema_mode="merge")
        assert DeltaTable(tmp_path).to_pyarrow_table()[text].to_pylist() == [text]
    late = racing(tmp_path, lambda: write_deltalake(tmp_path, named("d"), mode="append"), more=["d"])
    with pytest.raises(MetadataChangedError):
        write_deltalake(tmp_path, late, mode="append", schema_mode="merge")
    assert {row["name"] for row in DeltaTable(tmp_path).to_pyarrow_table().to_pylist()} == {"a", "d"}


def test_a_batch_is_not_committed_twice(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    once = CommitProperties(app_transactions=[Transaction("loader", 1)])
    twice = racing(tmp_path, lambda: write_deltalake(tmp_path, named("a"), mode="append", commit_properties=once))
    with pytest.raises(DeltaError, match="loader"):
        write_deltalake(tmp_path, twice, mode="append", commit_properties=once)
    assert set(numbers(tmp_path)) == {"a"}


def test_writers_without_new_numbers_do_not_conflict(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    write_deltalake(tmp_path, named("a"), mode="append")
    old = DeltaTable(tmp_path)
    merger = old.merge(named("a"), "target.name = source.name").when_matched_update({"name": "'b'"})
    write_deltalake(tmp_path, named("c"), mode="append")
    merger.execute()
    assert numbers(tmp_path) == {"b": (5, 1), "c": (3, 2)}


def test_a_restore_does_not_move_marks_back(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    for name in ("a", "b"):
        write_deltalake(tmp_path, named(name), mode="append")
    DeltaTable(tmp_path).restore(1)
    write_deltalake(tmp_path, named("c"), mode="append")
    assert numbers(tmp_path) == {"a": (5, 1), "c": (1, 3)}


@pytest.mark.parametrize("has_statistics", [True, False])
def test_a_mark_is_moved_to_the_last_number(tmp_path: Path, engine: Engine, has_statistics: bool) -> None:
    steps = {"up": 1, "down": -2, "sevens": 7}
    columns = [Field(name, "long", metadata=identity(5, step, explicit=True)) for name, step in steps.items()]
    table = DeltaTable.create(tmp_path, Schema([*columns, Field("name", "string")]))
    rows = named("a", "b", "c", "d", up=[6, 40, None, 3], down=[7, -40, None, 4], sevens=[5, 41, None, 4])
    none = ColumnProperties(statistics_enabled="NONE")
    off = None if has_statistics else WriterProperties(default_column_properties=none)
    write_deltalake(table, rows, mode="append", writer_properties=off)
    table = DeltaTable(tmp_path, engine=engine)
    for name, mark in {"up": 40, "down": -41, "sevens": 47}.items():
        table.alter.sync_identity(name)
        version = table.version()
        assert table.schema().field(name).metadata["delta.identity.highWaterMark"] == mark
        table.alter.sync_identity(name)  # nothing to do
        assert table.version() == version
    write_deltalake(table, named("e"), mode="append")
    last = read_by_all(tmp_path).filter(pc.field("name") == "e").to_pylist()
    assert last == [{"up": 41, "down": -43, "sevens": 54, "name": "e"}]


def test_a_mark_is_not_moved_for_another_column_or_past_concurrent_numbers(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path, SCHEMA)
    with pytest.raises(InvalidArgumentError, match="'name' is not an identity column") as refused:
        table.alter.sync_identity("NAME")
    assert refused.value.code == "DELTA_INVALID_IDENTITY_COLUMN"
    table.alter.sync_identity("up")  # no row has a number
    assert marks(tmp_path) == (None, None)
    write_deltalake(tmp_path, named("a", up=[7]), mode="append")
    before = load_snapshot(table.store)
    write_deltalake(tmp_path, named("b", up=[9]), mode="append")
    with pytest.raises(CommitFailedError):
        sync_identity(before, "up", ArrowEngine())
    DeltaTable(tmp_path).alter.sync_identity("up")
    assert marks(tmp_path)[1] == 9


def test_a_table_of_delta_spark_is_written(tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(Path(__file__).parents[2] / "data/delta_spark/tables/identity", path)
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    write_deltalake(path, pa.table({"v": ["ours"]}), mode="append")
    last = [row for row in DeltaTable(path).to_pyarrow_table().to_pylist() if row["v"] == "ours"]
    assert last == [{"a": min(row["a"] for row in rows) - 2, "b": max(row["b"] for row in rows) + 1, "v": "ours"}]


@pytest.mark.parametrize(
    ("start", "step", "number", "mark"),
    [(10, 10, 5, None), (10, 10, 10, 10), (10, 10, 11, 20), (-10, -10, -5, None), (5, -2, 4, 3), (5, -2, 3, 3)],
)
def test_the_mark_is_the_next_number_of_the_sequence(start: int, step: int, number: int, mark: int | None) -> None:
    column = synchronize(Field("id", "long", metadata=identity(start, step, explicit=True)), number)
    assert column.metadata.get("delta.identity.highWaterMark") == mark


def test_no_numbers_left(tmp_path: Path) -> None:
    column = Field("id", "long", metadata=identity((1 << 63) - 2))
    DeltaTable.create(tmp_path, Schema([column, Field("name", "string")]))
    rows = named("a", "b")
    batches = [*rows.to_batches(), *rows.schema.empty_table().to_batches(), rows.to_batches()[0].slice(2)]
    write_deltalake(tmp_path, pa.RecordBatchReader.from_batches(rows.schema, batches), mode="append")
    with pytest.raises(SchemaMismatchError, match="expected numbers in the range of a long"):
        write_deltalake(tmp_path, named("c"), mode="append")


def test_the_column_needs_statistics(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA)
    off = WriterProperties(column_properties={"up": ColumnProperties(statistics_enabled="NONE")})
    with pytest.raises(InvalidArgumentError, match="no statistics of the identity column 'up'") as refused:
        write_deltalake(tmp_path, named("a"), mode="append", writer_properties=off)
    assert refused.value.code == "DELTA_MISSING_IDENTITY_STATISTICS"
    assert not parquet_files(tmp_path)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (Field("id", "integer", metadata=identity()), "has the type integer; expected long"),
        (Field("id", "long", metadata=identity(step=0)), "step 0; expected a whole number"),
        (Field("id", "long", metadata={"delta.identity.step": 1}), "start None; expected a whole number"),
        (Field("id", "long", metadata={**identity(), "CURRENT_DEFAULT": "1"}), "has a default or an expression"),
        (Field("id", Schema([Field("a", "long", metadata=identity())])), "is a member of a struct"),
        (Field("part", "long", metadata=identity()), "partitions the table"),
    ],
)
def test_columns_that_are_refused(tmp_path: Path, field: Field, text: str) -> None:
    partition_by = ["part"] if field.name == "part" else None
    with pytest.raises(InvalidSchemaError, match=text) as refused:
        DeltaTable.create(tmp_path, Schema([Field("name", "string"), field]), partition_by=partition_by)
    assert refused.value.code == "DELTA_INVALID_IDENTITY_COLUMN"
