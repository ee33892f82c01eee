"""Files that Spark wrote in the legacy calendar, from before Spark 3: read as Spark reads them, or refused."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.arrow.legacy_calendar import HybridCalendar
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.errors import UnsupportedFeatureError
from lakehouse_lib.store import LocalStore
from tests.checkpoint_files import put_classic
from tests.log_builder import add, array, data_file, field, mapping, metadata, put, put_table, struct
from tests.old_calendar import EARLY, NAMED, days, marked, midnights
from tests.peers import plain

FIELDS = [
    field("id", "long"),
    field("d", "date"),
    field("t", "timestamp"),
    field("l", array("date")),
    field("s", struct(field("n", "long"), field("t", "timestamp"))),
    field("m", mapping("date", "timestamp")),
]


def written(spark: Any, root: Path, days: str, zone: str, stored: str) -> Path:
    """A table with one file of these days and their midnights, which Spark wrote with its legacy settings."""
    settings = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.outputTimestampType": stored,
        "spark.sql.session.timeZone": zone,
    }
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        frame = spark.sql(f"SELECT row_number() OVER (ORDER BY d) AS id, d, CAST(d AS TIMESTAMP) AS t FROM ({days})")
        frame = frame.selectExpr(
            *("id", "d", "t", "array(d, NULL) AS l", "IF(id % 3 = 0, NULL, named_struct('n', id, 't', t)) AS s"),
            "IF(id % 5 = 0 OR d IS NULL, NULL, map(d, t)) AS m",
        )
        frame.coalesce(1).write.parquet(str(root))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    (file,) = root.glob("*.parquet")
    put(root, 0, metadata(*FIELDS), add(file.name, size=file.stat().st_size))
    return root


EVERY_CENTURY = """SELECT explode(flatten(transform(sequence(0, 16), c -> transform(sequence(-3, 3), n ->
    date_add(make_date(100 * c + 1, 3, 1), int(n) + 365 * int(n)))))) AS d WHERE true
    UNION ALL SELECT DATE'1582-10-04' UNION ALL SELECT DATE'1582-10-15' UNION ALL SELECT DATE'0001-01-01'
    UNION ALL SELECT DATE'9999-12-31' UNION ALL SELECT CAST(NULL AS DATE)"""


@pytest.mark.parametrize("stored", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_days_keep_their_names_as_spark_reads_them(tmp_path: Path, spark: Any, stored: str) -> None:
    days = f"SELECT d FROM ({EVERY_CENTURY}) WHERE d IS NULL OR d >= DATE'0001-01-01'"
    table = DeltaTable(written(spark, tmp_path / "t", days, "UTC", stored))
    our_rows = plain(table.to_pyarrow_table())
    assert our_rows.to_pylist() == plain(table.to_spark(spark).toArrow()).to_pylist()
    assert our_rows.num_rows > 100
    assert dt.date(1582, 10, 4) in our_rows["d"].to_pylist()
    # A footer's statistics are in the legacy calendar too.
    assert table.to_pyarrow_table(filters="d = DATE '1582-10-04'").num_rows == 1
    assert table.to_pyarrow_table(filters="t = TIMESTAMP '1582-10-04 00:00:00Z'")["d"].to_pylist() == [
        dt.date(1582, 10, 4)
    ]


def test_moments_of_another_zone_are_right_or_refused(tmp_path: Path, spark: Any) -> None:
    modern = "SELECT explode(array(DATE'1901-01-01', DATE'2024-07-01')) AS d"
    table = DeltaTable(written(spark, tmp_path / "modern", modern, "America/Los_Angeles", "INT96"))
    our_rows = plain(table.to_pyarrow_table())
    assert our_rows.to_pylist() == plain(table.to_spark(spark).toArrow()).to_pylist()
    old = DeltaTable(written(spark, tmp_path / "old", "SELECT DATE'1850-01-01' AS d", "America/Los_Angeles", "INT96"))
    with pytest.raises(UnsupportedFeatureError, match=r"column t of .*before 1900.*America/Los_Angeles"):
        old.to_pyarrow_table()
    assert old.to_pyarrow_table(columns=["d"]).to_pylist() == [{"d": dt.date(1850, 1, 1)}]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_times_without_a_zone_are_never_of_the_old_calendar(tmp_path: Path, zone: str) -> None:
    """Spark writes TIMESTAMP_NTZ in today's calendar with all settings, even with dates in the legacy calendar."""
    rows = pa.table({"d": days(EARLY), "n": midnights(EARLY)})
    file = data_file(tmp_path, "f.parquet", marked(rows, zone))
    put_table(tmp_path, [field("d", "date"), field("n", "timestamp_ntz")], [file], features=["timestampNtz"])
    result = DeltaTable(tmp_path).to_pyarrow_table()
    assert result["d"].to_pylist() == [NAMED]
    assert result["n"].to_pylist() == rows["n"].to_pylist()


LATER = 20_000


def with_bounds(file: dict[str, Any], low: str, high: str) -> dict[str, Any]:
    """Give the file these bounds of ``d`` in the log."""
    bounds = {"minValues": {"d": low}, "maxValues": {"d": high}, "nullCount": {"d": 0}}
    return file | {"stats": json.dumps({"numRecords": 1} | bounds)}


SHAPES = {
    "day": (field("d", "date"), days(EARLY), NAMED),
    "moment": (field("d", "timestamp"), midnights(EARLY, zone="UTC"), dt.datetime(1000, 1, 1, tzinfo=dt.UTC)),
    "member": (
        field("d", struct(field("e", "date"))),
        pa.StructArray.from_arrays([days(EARLY)], ["e"]),
        {"e": NAMED},
    ),
    "list": (field("d", array("date")), pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), days(EARLY)), [NAMED]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("has_bounds", [False, True])
def test_a_dataset_refuses_days_of_the_julian_calendar(tmp_path: Path, shape: str, has_bounds: bool) -> None:
    column, values, expected = SHAPES[shape]
    rows = pa.table({"id": [1], "d": values})
    old = data_file(tmp_path, "old.parquet", marked(rows))
    if has_bounds and shape == "day":
        old = with_bounds(old, "1000-01-01", "1000-01-01")
    new = data_file(tmp_path, "new.parquet", rows.slice(0, 0))
    put_table(tmp_path, [field("id", "long"), column], [new, old])
    table = DeltaTable(tmp_path)
    assert table.to_pyarrow_table(filters=pc.field("id") > 0).to_pylist() == [{"id": 1, "d": expected}]
    with pytest.raises(UnsupportedFeatureError, match=r"old\.parquet may have days before 1901.*to_pyarrow_table"):
        table.to_pyarrow_dataset()


def test_a_dataset_of_modern_days_opens_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"id": [1], "d": days(LATER), "p": days(EARLY)})
    old = data_file(tmp_path, "f.parquet", marked(rows.drop("p")), partition={"p": "1000-01-01"})
    day = str(dt.date(1970, 1, 1) + dt.timedelta(LATER))
    fields = [field("id", "long"), field("d", "date"), field("p", "date")]
    put_table(tmp_path, fields, [with_bounds(old, day, day)], partition_by=["p"])
    monkeypatch.delattr(TableReader, "open")
    result = DeltaTable(tmp_path).to_pyarrow_dataset().to_table().to_pylist()
    assert result == [{"id": 1, "d": dt.date.fromisoformat(day), "p": NAMED}]


def test_files_of_the_gregorian_calendar_are_a_dataset(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "d": days(EARLY), "t": midnights(EARLY, zone="UTC")})
    spark_3_0 = rows.replace_schema_metadata({"org.apache.spark.version": "3.0.1"})  # only INT96 would be old
    file = data_file(tmp_path, "f.parquet", spark_3_0)
    put_table(tmp_path, [field("id", "long"), field("d", "date"), field("t", "timestamp")], [file])
    assert DeltaTable(tmp_path).to_pyarrow_dataset().to_table()["d"].to_pylist() == rows["d"].to_pylist()


PARSED_ENDS = pa.struct([("id", pa.int64()), ("d", pa.date32()), ("t", pa.timestamp("us", "UTC"))])
PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", PARSED_ENDS),
        ("maxValues", PARSED_ENDS),
        ("nullCount", pa.struct([("id", pa.int64()), ("d", pa.int64()), ("t", pa.int64())])),
    ]
)
BY_DAY = "d = DATE '1000-01-01'"
BY_MOMENT = "t = TIMESTAMP '1000-01-01 00:00:00Z'"


@pytest.mark.parametrize("with_json", [True, False])
@pytest.mark.parametrize("by_partition", [True, False])
def test_a_checkpoint_by_the_old_calendar_leaves_out_no_file(
    tmp_path: Path, with_json: bool, by_partition: bool
) -> None:
    """Its typed values are days in the legacy calendar, too."""
    rows = pa.table({"id": [1], "d": days(EARLY), "t": midnights(EARLY, zone="UTC")})
    stored = rows.drop("d") if by_partition else rows
    add = data_file(tmp_path, "f.parquet", marked(stored), partition={"d": "1000-01-01"} if by_partition else {})
    low: dict[str, Any] = {"id": 1, "d": "1000-01-01", "t": "1000-01-01T00:00:00.000Z"}
    stats: dict[str, Any] = {"numRecords": 1, "nullCount": {"id": 0, "d": 0, "t": 0}}
    fields = [field("id", "long"), field("d", "date"), field("t", "timestamp")]
    partitions = ["d"] if by_partition else []
    text = json.dumps(stats | {"minValues": low, "maxValues": low})
    root = put_table(tmp_path, fields, [add | {"stats": text}], partition_by=partitions)
    before = DeltaTable(root)
    assert [before.to_pyarrow_table(filters=sql).num_rows for sql in (BY_DAY, BY_MOMENT, "id = 1")] == [1, 1, 1]

    named = rows.to_pylist()[0]  # the value that a reader without the legacy calendar would return
    typed = stats | {"minValues": named, "maxValues": named}
    (head,) = [json.loads(line) for line in (root / "_delta_log" / f"{0:020}.json").read_text().splitlines()[1:2]]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    action = {"add": add | {"stats": text, "stats_parsed": typed, "partitionValues_parsed": {"d": named["d"]}}}
    store = LocalStore(str(root), fsync=False)
    path = root / put_classic(
        store,
        0,
        [protocol, head, action],
        stats_parsed=PARSED,
        partitions_parsed=pa.struct([("d", pa.date32())]) if by_partition else None,
        without=[] if with_json else ["add.stats"],
    )
    pq.write_table(marked(pq.ParquetFile(path).read()), path)
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    after = DeltaTable(root)
    assert after.snapshot.checkpoint_version == 0
    assert [after.to_pyarrow_table(filters=sql).num_rows for sql in (BY_DAY, BY_MOMENT, "id = 1")] == [1, 1, 1]
    # By text it is still pruned if it cannot match, and always by other columns.
    expected = [0, 0 if with_json else 1, 0] if by_partition else [0 if with_json else 1] * 2 + [0]
    others = ["d = DATE '2000-01-01'", "t = TIMESTAMP '2000-01-01 00:00:00Z'", "id = 2"]
    assert [len(after.files(sql)) for sql in others] == expected
    assert after.count() == 1


@pytest.mark.parametrize(
    ("footer", "expected"),
    [
        (None, None),
        ({b"other": b"x"}, None),
        ({b"org.apache.spark.version": b"4.2.0"}, None),
        ({b"org.apache.spark.version": b"a build"}, None),
        ({b"org.apache.spark.version": b"2.4.8"}, (True, True, None)),
        ({b"org.apache.spark.version": b"3.0.1-amzn"}, (False, True, None)),
        ({b"org.apache.spark.version": b"3.5.0", b"org.apache.spark.legacyDateTime": b""}, (True, False, None)),
        (
            {
                b"org.apache.spark.version": b"4.2.0",
                b"org.apache.spark.legacyINT96": b"",
                b"org.apache.spark.timeZone": b"Asia/Tokyo",
            },
            (False, True, "Asia/Tokyo"),
        ),
    ],
)
def test_the_footer_names_the_calendar(
    footer: dict[bytes, bytes] | None, expected: tuple[bool, bool, str | None] | None
) -> None:
    calendar = HybridCalendar.of(footer)
    assert calendar == (HybridCalendar(*expected) if expected else None)


def test_slices_of_nested_columns_keep_their_place() -> None:
    early = -354280  # 1000-01-01 in the legacy calendar, five days later in the proleptic one
    column = pa.chunked_array([pa.array([[0], [early, None], None, []], pa.list_(pa.date32())).slice(1)])
    rebased = HybridCalendar(True, True, "UTC").rebased(column, ["INT32"])
    assert rebased.to_pylist() == [[column.to_pylist()[0][0] - dt.timedelta(days=5), None], None, []]
