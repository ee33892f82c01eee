"""Generated columns: every verb computes or checks them on both engines, as delta-rs does where it has the verb."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakehouse_lib import DeltaTable, Field, Schema, write_deltalake
from lakehouse_lib.data_skipping import with_generated_partitions
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import (
    ConstraintViolatedError,
    DeltaError,
    InvalidArgumentError,
    InvalidPredicateError,
    InvalidSchemaError,
)
from lakehouse_lib.expressions import parse
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.schema import TableLayout
from tests.peers import parquet_files, plain, read_by_all
from tests.slow_cases import some_slow

DAY = {"delta.generationExpression": "CAST(at AS DATE)"}
SCHEMA = Schema(
    [
        Field("id", "integer"),
        Field("at", "timestamp"),
        Field("name", "string"),
        Field("day", "date", nullable=False, metadata=DAY),
        Field("next", "integer", metadata={"delta.generationExpression": "id + 1"}),
        Field("first", "string", metadata={"delta.generationExpression": "substring(name, 1, 1)"}),
        Field(
            "size", "string", metadata={"delta.generationExpression": "CASE WHEN id > 3 THEN 'big' ELSE 'small' END"}
        ),
    ]
)
START = dt.datetime(2026, 1, 31, 23, 30, tzinfo=dt.UTC)


def rows(*ids: int, **others: Any) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "at": pa.array([START + dt.timedelta(hours=number) for number in ids], pa.timestamp("us", "UTC")),
            "name": ["" if number % 3 == 0 else f"n{number}" for number in ids],
            **others,
        }
    )


def expected(*ids: int, names: dict[int, str] | None = None) -> pa.Table:
    table = rows(*ids).to_pydict()
    names = names or {}
    table["name"] = [names.get(number, name) for number, name in zip(ids, table["name"], strict=True)]
    columns = {
        **table,
        "day": [moment.date() for moment in table["at"]],
        "next": [number + 1 for number in ids],
        "first": [name[:1] or None for name in table["name"]],
        "size": ["big" if number > 3 else "small" for number in ids],
    }
    return plain(pa.table(columns, SCHEMA.to_arrow()))


def new_table(path: Path, engine: Engine | None = None, **options: Any) -> DeltaTable:
    DeltaTable.create(path, SCHEMA, partition_by=["day", "first"], **options)
    return DeltaTable(path, engine=engine)


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["copies", "vectors"])
def test_every_verb_computes_missing_values(tmp_path: Path, engine: Engine, properties: dict[str, str]) -> None:
    table = new_table(tmp_path, engine, configuration=properties)
    write_deltalake(table, rows(1, 2, 3), mode="append")
    write_deltalake(table, rows(4, next=pa.array([5], pa.int32()), first=["n"]), mode="append")
    assert read_by_all(tmp_path) == expected(1, 2, 3, 4)

    table.update({"name": "'zoe'", "at": "at"}, predicate="id = 3")
    assert read_by_all(tmp_path) == expected(1, 2, 3, 4, names={3: "zoe"})

    merger = table.merge(rows(2, 7), "target.id = source.id")
    merger.when_matched_update({"id": "source.id + 100"}).when_not_matched_insert_all().execute()
    result = DeltaTable(tmp_path).to_pyarrow_table().to_pydict()
    assert dict(zip(result["id"], result["next"], strict=True)) == {number: number + 1 for number in (1, 3, 4, 7, 102)}
    assert dict(zip(result["id"], result["size"], strict=True))[102] == "big"

    write_deltalake(table, rows(9), mode="overwrite", predicate="id = 4 OR id = 9")
    write_deltalake(table, rows(3), mode="overwrite")
    assert read_by_all(tmp_path) == expected(3)


VIOLATIONS = {
    "append": lambda table: write_deltalake(table, rows(1, 2, next=pa.array([2, 4], pa.int32())), mode="append"),
    "append null": lambda table: write_deltalake(table, rows(2, next=pa.array([None], pa.int32())), mode="append"),
    "update": lambda table: table.update({"next": "7"}),
    "merge": lambda table: (
        table.merge(rows(5), "target.id = source.id").when_not_matched_insert({"id": "id", "next": "0"}).execute()
    ),
}


@pytest.mark.parametrize("verb", VIOLATIONS)
def test_provided_values_are_checked(tmp_path: Path, engine: Engine, verb: str) -> None:
    table = new_table(tmp_path, engine)
    write_deltalake(table, rows(4), mode="append")
    files = parquet_files(tmp_path)
    title = "NOT NULL day" if verb == "merge" else r"GENERATED next AS \(id \+ 1\)"
    with pytest.raises(ConstraintViolatedError, match=rf"the data violates {title}: 1 (row|of \d rows?), such as"):
        VIOLATIONS[verb](table)
    assert parquet_files(tmp_path) == files
    assert DeltaTable(tmp_path).version() == 1


def test_delta_rs_writes_the_same_rows_to_such_a_table(tmp_path: Path) -> None:
    own, other = tmp_path / "ours", tmp_path / "theirs"
    for path, write in ((own, write_deltalake), (other, deltalake.write_deltalake)):
        new_table(path)
        write(str(path), rows(1, 2, 3, 4), mode="append")
    assert read_by_all(own) == read_by_all(other)
    deltalake.write_deltalake(str(own), rows(5, 6), mode="append")
    write_deltalake(other, rows(5, 6), mode="append")
    assert read_by_all(own) == read_by_all(other) == expected(1, 2, 3, 4, 5, 6)
    foreign = tmp_path / "made"
    deltalake.DeltaTable.create(str(foreign), deltalake.Schema.from_json(SCHEMA.to_json()), partition_by=["day"])
    write_deltalake(foreign, rows(1), mode="append")
    assert DeltaTable(foreign).protocol() == DeltaTable(own).protocol()


def test_expressions_that_only_spark_can_evaluate(tmp_path: Path, spark: SparkSession) -> None:
    schema = Schema(
        [
            Field("at", "timestamp"),
            Field("name", "string"),
            Field("hour", "integer", metadata={"delta.generationExpression": "CAST(date_format(at, 'H') AS INT)"}),
            Field("upper", "string", metadata={"delta.generationExpression": "initcap(name)"}),
        ]
    )
    DeltaTable.create(tmp_path, schema)
    data = rows(1, 2).select(["at", "name"])
    with pytest.raises(InvalidPredicateError, match=r"the column 'hour' cannot be computed: only Spark") as refused:
        write_deltalake(tmp_path, data, mode="append")
    assert refused.value.code == "DELTA_PREDICATE_NEEDS_SPARK"
    table = DeltaTable(tmp_path, engine=SparkEngine(spark))
    write_deltalake(table, data, mode="append")
    write_deltalake(table, data.append_column("hour", pa.array([0, 1], pa.int32())), mode="append")  # in UTC
    table.update({"name": "'x'"}, predicate="name = 'n1'")
    result = DeltaTable(tmp_path).to_pyarrow_table(columns=["name", "hour", "upper"]).to_pylist()
    assert sorted(map(str, result)) == sorted(
        [str({"name": "x", "hour": 0, "upper": "X"}), str({"name": "n2", "hour": 1, "upper": "N2"})] * 2
    )
    with pytest.raises(ConstraintViolatedError, match="GENERATED hour AS"):
        write_deltalake(table, data.append_column("hour", pa.array([0, 2], pa.int32())), mode="append")


@pytest.mark.parametrize(
    ("kind", "expression", "error", "text"),
    [
        ("double", "rand()", InvalidPredicateError, "does not always have the same value"),
        ("date", "current_date()", InvalidPredicateError, "does not always have the same value"),
        ("string", "reflect('java.util.UUID', 'randomUUID')", InvalidPredicateError, "does not always have the same"),
        ("string", "java_method('java.util.UUID', 'randomUUID')", InvalidPredicateError, "does not always have the"),
        ("string", "try_reflect('java.util.UUID', 'randomUUID')", InvalidPredicateError, "does not always have the"),
        ("binary", "aes_encrypt(name, 'abcdefghijklmnop')", InvalidPredicateError, "does not always have the same"),
        ("long", "id + 1", InvalidPredicateError, "it has the type integer; expected long"),
        ("string", "at", InvalidPredicateError, "cannot be assigned to a column of type string"),
        ("date", "CAST(at AS DATE", InvalidPredicateError, "syntax error"),
        ("integer", "missing", InvalidPredicateError, "'missing' does not exist"),
        ("integer", "max(id)", InvalidPredicateError, "cannot be evaluated for a single row"),
        ("date", "day", InvalidSchemaError, "reads the generated column 'day'"),
        ("integer", "new", InvalidSchemaError, "reads the generated column 'new'"),
    ],
)
def test_expressions_that_are_refused(
    tmp_path: Path, kind: str, expression: str, error: type[DeltaError], text: str
) -> None:
    new = Field("new", kind, metadata={"delta.generationExpression": expression})
    with pytest.raises(error, match=text):
        DeltaTable.create(tmp_path, Schema([*SCHEMA.fields, new]))
    assert not (tmp_path / "_delta_log").exists()


def test_columns_of_an_expression_are_in_use(tmp_path: Path) -> None:
    DeltaTable.create(tmp_path, SCHEMA, configuration={"delta.columnMapping.mode": "name"})
    table = DeltaTable(tmp_path)
    for change in (
        lambda: table.alter.drop_columns(["at"]),
        lambda: table.alter.rename_column("id", "number"),
    ):
        with pytest.raises(InvalidArgumentError, match="it is in GENERATED") as refused:
            change()
        assert refused.value.code == "DELTA_COLUMN_IN_USE"
    table.alter.drop_columns(["size"])
    table.alter.rename_column("next", "following")
    write_deltalake(table, rows(1), mode="append")
    assert DeltaTable(tmp_path).to_pyarrow_table()["following"].to_pylist() == [2]


PARTS = {
    "day": ("date", "CAST(at AS DATE)"),
    "year": ("integer", "year(at)"),
    "month": ("integer", "MONTH(at)"),
    "hour": ("integer", "hour(at)"),
    "start": ("date", "trunc(at, 'MM')"),
    "format": ("string", "date_format(at, 'yyyy-MM')"),
    "prefix": ("string", "substring(name, 1, 2)"),
}


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
@pytest.mark.parametrize("seed", some_slow(range(20), 1))
def test_conditions_on_sources_prune_partitions_and_lose_no_row(seed: int, kind: str) -> None:
    """Against the values that a session in any time zone computes."""
    chance = random.Random(f"{seed} {kind}")
    fields = [
        Field("at", kind),
        Field("name", "string"),
        *(Field(name, of, metadata={"delta.generationExpression": sql}) for name, (of, sql) in PARTS.items()),
    ]
    layout = TableLayout(Schema(fields), tuple(PARTS))
    offset = dt.timedelta(minutes=chance.choice([-720, -210, 0, 345, 840]) if kind == "timestamp" else 0)

    def moment() -> dt.datetime:
        unit = dt.timedelta(minutes=chance.choice([1, 60, 60 * 24, 60 * 24 * 31]))
        naive = dt.datetime(2026, 1, 1) + unit * chance.randrange(-30, 30)
        return dt.datetime.combine(naive.date(), dt.time()) if kind == "date" else naive

    def condition() -> str:
        text, name = moment().isoformat(" "), chance.choice(["", "a", "ab", "abc", "zé"])
        text = text[:10] if kind == "date" else text
        return chance.choice(
            [
                f"at {chance.choice(['=', '<', '<=', '>', '>=', '<=>'])} '{text}'",
                f"at {chance.choice(['<', '<='])} '{text}' AND at > '{moment().isoformat(' ')[: len(text)]}'",
                f"at IN ('{text}')",
                "at IS NULL",
                f"name {chance.choice(['=', '<', '>='])} '{name}'",
                f"name IN ('{name}', 'b') AND at IS NOT NULL",
            ]
        )

    writers = Protocol(1, 4)
    for _ in range(60):
        at, name = chance.choice([None, moment()]), chance.choice([None, "", "a", "ab", "abcd", "zéz"])
        local = None if at is None else at + offset
        values = {
            "at": at.date() if at is not None and kind == "date" else at,
            "name": name,
            "day": local and local.date(),
            "year": local and local.year,
            "month": local and local.month,
            "hour": local and (0 if kind == "date" else local.hour),
            "start": local and local.date().replace(day=1),
            "format": local and local.isoformat()[:7],
            "prefix": name and name[:2],
        }
        row = pa.Table.from_pylist([values], layout.schema.to_arrow())
        predicate = parse(condition(), layout.schema)
        derived = with_generated_partitions(predicate, layout, writers)
        from lakehouse_lib.expressions import matches

        assert matches(derived, row)[0].as_py() is True or matches(predicate, row)[0].as_py() is not True, (
            predicate.sql,
            values,
        )


CALLS = {
    ("date", "date", "trunc(at, 'MM')", "at = '2026-01-31'"): ["2026-01-01", "2026-01-01"],
    ("date", "date", "trunc(at + 1, 'MM')", "at = '2026-01-31'"): [],  # it is 2026-02-01
    ("timestamp_ntz", "integer", "hour(at)", "at = '2026-01-31 10:30:00'"): ["10", "10"],
    ("timestamp_ntz", "string", "date_format(at, 'yyyy')", "at = '2026-01-31 10:30:00'"): ["2026", "2026"],
    ("timestamp", "string", "date_format(at, 'yyyy')", "at BETWEEN '2026-01-31' AND '9999-12-31'"): [],  # or +10000
    # Pacific/Apia had no 30 December 2011: a session with its clock truncates to the 31st.
    ("timestamp_ntz", "timestamp_ntz", "date_trunc('DAY', at)", "at = '2011-12-30 10:00:00'"): [
        "2011-12-29 00:00:00",
        "2011-12-31 00:00:00",
    ],
}


@pytest.mark.parametrize(("case", "bounds"), CALLS.items())
def test_bounds_of_calls_that_only_spark_evaluates(case: tuple[str, str, str, str], bounds: list[str]) -> None:
    kind, generated, sql, condition = case
    part = Field("part", generated, metadata={"delta.generationExpression": sql})
    layout = TableLayout(Schema([Field("at", kind), part]), ("part",))
    predicate = parse(condition, layout.schema)
    derived = with_generated_partitions(predicate, layout, Protocol(1, 4))
    if not bounds:
        assert derived == predicate
        return
    low, high = (text if text.isdigit() and generated == "integer" else f"'{text}'" for text in bounds)
    assert (
        derived.root == parse(f"{condition} AND (part >= {low} AND part <= {high} OR part IS NULL)", layout.schema).root
    )


def test_a_filter_on_a_source_reads_only_its_partitions(tmp_path: Path) -> None:
    new_table(tmp_path, configuration={"delta.dataSkippingNumIndexedCols": "0"})
    write_deltalake(tmp_path, rows(*range(0, 240, 3)), mode="append")
    table = DeltaTable(tmp_path)
    assert len(table.files()) == 11
    counts = {
        "at >= '2026-02-05 12:00:00'": 7,  # a day wider, for writers in other time zones
        "at = '2026-02-05 12:00:00'": 3,
        "CAST(at AS DATE) = '2026-02-05'": 3,
        "at < '2026-02-02' AND id > 5": 3,
        "at IS NULL": 0,
        "id > 5": 11,
    }
    assert {condition: len(table.files(condition)) for condition in counts} == counts
