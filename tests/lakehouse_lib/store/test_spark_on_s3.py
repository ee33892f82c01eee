"""The Spark engine with tables in S3 (moto's server). Reads by Spark itself need jars: tests/s3/spark.py."""

import json

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.engine.spark.store_access import properties
from lakehouse_lib.errors import InvalidArgumentError, SchemaMismatchError
from lakehouse_lib.schema import Field, PrimitiveType, Schema
from lakehouse_lib.store import open_store
from tests.table_on_s3 import delta_rs_ids, ids, rows


@pytest.fixture
def engine(spark):
    return SparkEngine(spark)


def test_rewrites_by_the_tasks_of_a_cluster(s3_server, location, engine):
    options = s3_server.options
    for start in (0, 100):
        write_deltalake(location, rows(start), mode="append", storage_options=options)
    table = DeltaTable(location, storage_options=options, engine=engine)
    assert table.optimize.compact()["numFilesRemoved"] == 2
    assert table.delete("id >= 190")["num_deleted_rows"] == 10
    assert table.optimize.z_order(["id"], target_size=1_500)["numFilesAdded"] > 1
    assert ids(DeltaTable(location, storage_options=options).to_pyarrow_table()) == list(range(190))
    assert delta_rs_ids(location, options) == list(range(190))


def test_a_dataframe_is_one_put_a_file_and_nothing_is_copied(s3_server, location, spark, engine):
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "id", "concat('shop ', id % 3) AS shop", "timestamp_seconds(id) AS time", "array(struct(id AS a)) AS nested"
    )
    write_deltalake(location, frame, partition_by="shop", storage_options=s3_server.options, engine=engine)
    puts = [request for request in s3_server.requests if request.verb == "PUT"]
    assert sum(request.key.endswith(".parquet") for request in puts) == 6  # two tasks with rows of three shops
    assert not any(
        "x-amz-copy-source" in request.headers or "_temporary" in request.key for request in s3_server.requests
    )
    table = DeltaTable(location, storage_options=s3_server.options)
    table_rows = table.to_pyarrow_table().sort_by("id").to_pylist()
    expected = sorted(frame.toArrow().cast(table.to_pyarrow_table().schema).to_pylist(), key=lambda row: row["id"])
    assert table_rows == expected
    assert delta_rs_ids(location, s3_server.options) == list(range(100))
    stats = [json.loads(text) for text in table.snapshot.files["stats"].to_pylist()]
    assert sum(body["numRecords"] for body in stats) == 100
    assert min(body["minValues"]["id"] for body in stats) == 0


def test_partitions_by_time_are_in_utc(s3_server, location, spark, engine):
    # The session's time zone is New York.
    frame = spark.sql("SELECT 1L AS id, TIMESTAMP'2024-11-03 05:30:00Z' AS time UNION ALL SELECT 2L, NULL")
    write_deltalake(location, frame, partition_by="time", storage_options=s3_server.options, engine=engine)
    table = DeltaTable(location, storage_options=s3_server.options)
    assert table.to_pyarrow_table(filters="time = '2024-11-03T05:30:00Z'")["id"].to_pylist() == [1]
    assert table.to_pyarrow_table(filters="time IS NULL")["id"].to_pylist() == [2]


def test_a_refused_null_leaves_no_files(s3_server, location, spark, engine):
    schema = Schema([Field("id", PrimitiveType("long"), nullable=False)])
    table = DeltaTable.create(location, schema, storage_options=s3_server.options)
    frame = spark.sql("SELECT if(id = 70, NULL, id) AS id FROM range(0, 100, 1, 1)")
    with pytest.raises(SchemaMismatchError, match="id"):
        write_deltalake(table, frame, mode="append", engine=engine)
    assert [meta.path for meta in table.store.walk() if meta.path.endswith(".parquet")] == []
    assert DeltaTable(location, storage_options=s3_server.options).version() == 0


def test_rows_of_arrow_are_written_by_spark(s3_server, location, engine):
    write_deltalake(location, pa.table({"id": [1, 2]}), storage_options=s3_server.options, engine=engine)
    assert delta_rs_ids(location, s3_server.options) == [1, 2]


def test_the_error_without_s3a_names_the_missing_library(s3_server, location, spark, engine):
    write_deltalake(location, rows(0), storage_options=s3_server.options)
    table = DeltaTable(location, storage_options=s3_server.options)
    with pytest.raises(InvalidArgumentError, match=r"spark\.jars\.packages=org\.apache\.hadoop:hadoop-aws:\d"):
        table.to_spark(spark)
    with pytest.raises(InvalidArgumentError, match="no file system for s3a: locations"):
        engine.read(table.snapshot, None, None)


KEYS = {"access_key_id": "the-id", "secret_access_key": "the-secret"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {}),
        ({"region": "eu-central-1"}, {"endpoint.region": "eu-central-1"}),
        (
            KEYS,
            {
                "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
                "access.key": "the-id",
                "secret.key": "the-secret",
            },
        ),
        (
            {**KEYS, "session_token": "the-token"},
            {
                "aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
                "access.key": "the-id",
                "secret.key": "the-secret",
                "session.token": "the-token",
            },
        ),
        (
            {"skip_signature": "true"},
            {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
        ),
        (
            {"endpoint_url": "http://127.0.0.1:1", "allow_http": "true"},
            {
                "endpoint": "http://127.0.0.1:1",
                "endpoint.region": "us-east-1",
                "connection.ssl.enabled": "false",
                "path.style.access": "true",
            },
        ),
        (
            {"endpoint_url": "https://s3.example.com", "virtual_hosted_style_request": "true", "region": "x"},
            {
                "endpoint": "https://s3.example.com",
                "endpoint.region": "x",
                "connection.ssl.enabled": "true",
                "path.style.access": "false",
            },
        ),
    ],
)
def test_storage_options_as_hadoop_calls_them(monkeypatch, options, expected):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    store = open_store("s3://lake/orders", {**options, "allowed_roots": "s3://other/source s3://lake/source"})
    assert properties(store) == {
        f"fs.s3a.bucket.{bucket}.{name}": value for bucket in ("lake", "other") for name, value in expected.items()
    }
