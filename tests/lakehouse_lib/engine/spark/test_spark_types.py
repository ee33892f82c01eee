"""Types as other writers store them, on both engines."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import DeltaError
from tests.log_builder import array, data_file, field, mapping, put_table, struct
from tests.peers import plain, read_engine

ARROW = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "decimal(5,2)": pa.decimal128(5, 2),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(20,2)": pa.decimal128(20, 2),
}
VALUES: dict[str, list[Any]] = {
    "byte": [1, -128, None, 127],
    "short": [1, -32768, None, 32767],
    "integer": [1, -(2**31), None, 2**31 - 1],
    "long": [1, -(2**63), None, 2**63 - 1],
    "float": [1.5, -2.25, None, float("inf")],
    "date": [dt.date(2020, 1, 1), dt.date(1, 1, 1), None, dt.date(9999, 12, 31)],
}
NARROW = [Decimal("1.25"), Decimal("-2.50"), None, Decimal("999.99")]

# Every change that the protocol lists (Type Widening).
WIDENINGS = [
    *[("byte", wide) for wide in ("short", "integer", "long", "double", "decimal(10,0)", "decimal(12,2)")],
    *[("short", wide) for wide in ("integer", "long", "double", "decimal(10,0)", "decimal(20,1)")],
    *[("integer", wide) for wide in ("long", "double", "decimal(10,0)", "decimal(30,4)")],
    *[("long", wide) for wide in ("decimal(20,0)", "decimal(30,4)")],
    ("float", "double"),
    ("date", "timestamp_ntz"),
    *[("decimal(5,2)", wide) for wide in ("decimal(10,2)", "decimal(20,4)", "decimal(7,4)")],
    ("decimal(10,2)", "decimal(38,5)"),
    ("decimal(20,2)", "decimal(38,5)"),
    # delta-spark 3 wrote these, before the protocol required ten digits.
    ("byte", "decimal(4,1)"),
    ("short", "decimal(6,1)"),
]


def widened(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "timestamp_ntz":
        return dt.datetime(value.year, value.month, value.day)
    if kind.startswith("decimal"):
        return Decimal(value)
    return float(value) if kind == "double" else value


def test_old_files_of_every_widened_type(tmp_path: Path, engine: Engine) -> None:
    fields, columns, nested = [], {}, {}
    for number, (old, new) in enumerate(WIDENINGS):
        change = {"fromType": old, "toType": new}
        stored = pa.array(VALUES.get(old, NARROW), ARROW[old])
        name = f"c{number}"
        fields += [
            field(name, new, changes=[change]),
            field(f"s{name}", struct(field("x", new, changes=[change]))),
            field(f"l{name}", array(new), changes=[{**change, "fieldPath": "element"}]),
        ]
        columns[name] = stored
        columns[f"s{name}"] = pa.StructArray.from_arrays([stored], ["x"])
        columns[f"l{name}"] = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), stored)
        nested[name] = [widened(value, new) for value in VALUES.get(old, NARROW)]
    rows = pa.table({"k": [0, 1, 2, 3], **columns})
    adds = [
        data_file(tmp_path, "plain.parquet", rows, use_dictionary=False),
        data_file(tmp_path, "dictionary.parquet", rows, store_decimal_as_integer=True),
    ]
    put_table(tmp_path, [field("k", "long"), *fields], adds, features=["typeWidening", "timestampNtz"])
    read = read_engine(engine, tmp_path)
    assert read["k"].to_pylist() == [0, 0, 1, 1, 2, 2, 3, 3]
    for name, values in nested.items():
        twice = [value for value in values for _ in range(2)]
        assert read[name].to_pylist() == twice, name
        assert [row["x"] for row in read[f"s{name}"].to_pylist()] == twice, name
        assert [row[0] for row in read[f"l{name}"].to_pylist()] == twice, name
    # Conditions in the wider type are compared with row group statistics of the narrower type.
    where = "c2 > 100 AND c7 >= 32767.0 AND c9 IS NOT NULL"
    assert read_engine(engine, tmp_path, where, ["k"])["k"].to_pylist() == [3, 3]
    assert read_engine(engine, tmp_path, "c1 <> 1 AND c10 < 0", ["k"])["k"].to_pylist() == [1, 1]
    assert read_engine(engine, tmp_path, "c11 > 10000000000", ["k"]).num_rows == 0


def test_columns_that_files_lack_are_null(tmp_path: Path, engine: Engine) -> None:
    old = pa.table(
        {
            "k": [1, 2],
            "s": pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
            "l": pa.array([[{"a": 1}, None], None], pa.list_(pa.struct([("a", pa.int64())]))),
            "only": pa.array([{"gone": 1}, None], pa.struct([("gone", pa.int64())])),
        }
    )
    fields = [
        field("k", "long"),
        field("s", struct(field("b", "string"), field("a", "long"), field("v", "void"))),
        field("l", array(struct(field("a", "long"), field("b", "string")))),
        field("only", struct(field("b", "string"))),
        field("v", "void"),
        field("m", mapping("string", struct(field("a", "long")))),
    ]
    put_table(tmp_path, fields, [data_file(tmp_path, "old.parquet", old)])
    assert read_engine(engine, tmp_path).to_pylist() == [
        {
            "k": 1,
            "s": {"b": None, "a": 1, "v": None},
            "l": [{"a": 1, "b": None}, None],
            "only": {"b": None},
            "v": None,
            "m": None,
        },
        {"k": 2, "s": None, "l": None, "only": None, "v": None, "m": None},
    ]
    assert read_engine(engine, tmp_path, "s IS NULL", ["v"]).to_pylist() == [{"v": None}]


EDGES = [
    dt.datetime(1, 1, 1, 0, 0, 0),
    dt.datetime(1582, 10, 4, 12, 0, 0),
    dt.datetime(1883, 11, 18, 12, 0, 0, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2024, 3, 10, 2, 30, 0),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
]


def test_timestamps_of_every_physical_form(tmp_path: Path, engine: Engine) -> None:
    moments = [moment.replace(tzinfo=dt.UTC) for moment in EDGES]
    utc, local = pa.array(moments, pa.timestamp("us", "UTC")), pa.array(EDGES, pa.timestamp("us"))
    k = pa.array(range(len(EDGES)), pa.int64())
    fields = [field("k", "long"), field("at", "timestamp"), field("wall", "timestamp_ntz")]
    rows = pa.table({"k": k, "at": utc, "wall": local})
    millis = [moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in EDGES]
    zoned = pa.array([moment.replace(tzinfo=dt.UTC) for moment in millis], pa.timestamp("ms", "UTC"))
    adds = [
        data_file(tmp_path, "micros.parquet", rows),
        data_file(
            tmp_path, "millis.parquet", pa.table({"k": k, "at": zoned, "wall": pa.array(millis, pa.timestamp("ms"))})
        ),
        data_file(tmp_path, "int96.parquet", pa.table({"k": k, "at": utc}), use_deprecated_int96_timestamps=True),
    ]
    put_table(tmp_path, fields, adds, features=["timestampNtz"])
    read = read_engine(engine, tmp_path).to_pylist()
    for number in range(len(EDGES)):
        matches = sorted([row for row in read if row["k"] == number], key=str)
        cut = millis[number].replace(tzinfo=dt.UTC)
        assert sorted(row["at"] for row in matches) == sorted([moments[number], moments[number], cut])
        assert sorted(row["wall"] for row in matches if row["wall"]) == sorted([EDGES[number], millis[number]])
    where = "at > TIMESTAMP '9999-12-31 23:59:59.999000Z' OR at < TIMESTAMP '0001-01-02 00:00:00Z'"
    assert read_engine(engine, tmp_path, where, ["k"])["k"].to_pylist() == [0, 0, 0, 5, 5]


def test_decimals_of_every_physical_form(tmp_path: Path, engine: Engine) -> None:
    fields = [field("k", "long")]
    columns: dict[str, Any] = {"k": [1, 2, 3]}
    for precision, scale in ((4, 2), (9, 0), (18, 9), (38, 10)):
        biggest = Decimal((0, (9,) * precision, -scale))
        columns[f"d{precision}"] = pa.array([biggest, biggest.copy_negate(), None], pa.decimal128(precision, scale))
        fields.append(field(f"d{precision}", f"decimal({precision},{scale})"))
    rows = pa.table(columns)
    adds = [data_file(tmp_path, f"{way}.parquet", rows, store_decimal_as_integer=way) for way in (True, False)]
    put_table(tmp_path, fields, adds)
    assert read_engine(engine, tmp_path) == plain(pa.concat_tables([rows, rows]))


def test_variants_have_the_type_of_spark(tmp_path: Path, spark: Any) -> None:
    fields = [field("k", "long"), field("v", "variant"), field("s", struct(field("v", "variant")))]
    written = spark.sql(
        "SELECT k, v, named_struct('v', v) AS s FROM (SELECT id AS k, IF(id = 2, NULL, parse_json(concat("
        '\'{"a": \', id, \', "b": [1, "x"]}\'))) AS v FROM range(3))'
    )
    for number, shredded in enumerate(("false", "true")):
        settings = {
            "spark.sql.variant.writeShredding.enabled": shredded,
            "spark.sql.variant.inferShreddingSchema": shredded,
        }
        before = {name: spark.conf.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            written.coalesce(1).write.mode("overwrite").parquet(str(tmp_path / f"written{number}"))
        finally:
            for name, old in before.items():
                spark.conf.unset(name) if old is None else spark.conf.set(name, old)
    files = [next((tmp_path / f"written{number}").glob("*.parquet")) for number in range(2)]
    assert ["typed_value" in str(pq.ParquetFile(file).schema) for file in files] == [False, True]
    for number, file in enumerate(files):
        root = tmp_path / f"table{number}"
        add = data_file(root, "v.parquet", pa.table({"k": [0]}))
        (root / "v.parquet").write_bytes(file.read_bytes())
        put_table(root, fields, [{**add, "size": file.stat().st_size}], features=["variantType"])
        frame = DeltaTable(root).to_spark(spark)
        assert frame.schema["v"].dataType.simpleString() == "variant"
        rows = frame.orderBy("k").selectExpr("variant_get(v, '$.a', 'int') AS a", "to_json(s.v) AS j").collect()
        assert [tuple(row) for row in rows] == [(0, '{"a":0,"b":[1,"x"]}'), (1, '{"a":1,"b":[1,"x"]}'), (None, None)]


def test_a_column_of_an_unknown_type_is_refused_by_name_and_the_others_read(tmp_path: Path, engine: Engine) -> None:
    fields = [field("k", "long"), field("i", struct(field("t", "interval day to second")))]
    put_table(tmp_path, fields, [data_file(tmp_path, "a.parquet", pa.table({"k": [1]}))])
    assert read_engine(engine, tmp_path, None, ["k"]).to_pylist() == [{"k": 1}]
    with pytest.raises(DeltaError, match=r"i.*interval day to second"):
        read_engine(engine, tmp_path)


def test_a_file_of_0_bytes_is_refused(tmp_path: Path, spark: Any) -> None:
    add = data_file(tmp_path, "a.parquet", pa.table({"k": [1]}))
    gone = data_file(tmp_path, "b.parquet", pa.table({"k": [2]}))
    put_table(tmp_path, [field("k", "long")], [{**add, "size": 0}, gone])
    assert sorted(row.k for row in DeltaTable(tmp_path).to_spark(spark).collect()) == [1, 2]
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(DeltaError, match=r"a\.parquet has no bytes"):
        SparkEngine(spark).read(DeltaTable(tmp_path).snapshot, None, None)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DeltaError, match=r"a\.parquet is missing"):
        SparkEngine(spark).read(DeltaTable(tmp_path).snapshot, None, None)
