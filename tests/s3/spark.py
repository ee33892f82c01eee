"""Spark with s3a (``hadoop-aws``) on a real S3 server: ``make test-spark-s3``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.engine.spark.store_access import properties
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.store import open_store
from tests.s3.server import KEY, SECRET, Proxy, options_of
from tests.s3.spark_session import session
from tests.spark_jobs.loading import PRICE_RULE, Shop
from tests.suite_warnings import SUITE_WARNINGS
from tests.table_on_s3 import delta_rs_ids, ids, rows

pytestmark = [
    pytest.mark.timeout(1800),  # Spark first copies Amazon's SDK (0.7 GB), and two sessions share a busy machine
    *SUITE_WARNINGS,
]

TABLES = Path(__file__).parents[1] / "data" / "delta_spark" / "tables"


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Spark's log and events."""
    return tmp_path_factory.mktemp("told-by-spark")


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Iterator[SparkSession]:
    spark_session = session(spark_folder)
    yield spark_session
    spark_session.stop()


def by_spark(spark: SparkSession, table: DeltaTable) -> list[int]:
    return sorted(row.id for row in table.to_spark(spark).select("id").collect())


def test_every_verb_of_the_engine(server, location, spark):
    options, engine = server.options, SparkEngine(spark)
    frame = spark.range(0, 200, 1, 2).selectExpr("id", "concat('shop ', id % 4) AS shop", "id / 3.0D AS amount")
    write_deltalake(location, frame, partition_by="shop", storage_options=options, engine=engine)
    write_deltalake(location, rows(200), mode="append", storage_options=options)
    table = DeltaTable(location, storage_options=options, engine=engine)
    assert by_spark(spark, table) == list(range(300)) == delta_rs_ids(location, options)
    assert table.optimize.compact()["numFilesRemoved"] > 4
    assert by_spark(spark, table) == list(range(300)) == delta_rs_ids(location, options)
    assert table.delete("id >= 250 OR shop = 'shop 1'")["num_deleted_rows"] == 113
    left = [number for number in range(250) if number % 4 != 1]
    assert by_spark(spark, table) == left == delta_rs_ids(location, options)
    write_deltalake(location, rows(1000, 40), mode="append", storage_options=options)
    left += range(1000, 1040)
    assert table.optimize.z_order(["id"])["numFilesRemoved"] > 4
    assert by_spark(spark, table) == left == delta_rs_ids(location, options)
    matches = table.to_spark(spark, ["id", "shop"], filters="shop = 'shop 2' AND id < 50").collect()
    assert sorted((row.id, row.shop) for row in matches) == [(number, "shop 2") for number in range(2, 50, 4)]
    assert all(uri.startswith("s3a://bucket/") for uri in table.to_spark(spark).inputFiles())


@pytest.mark.parametrize("name", ["deletion_vectors_checkpointed", "mapping_by_id", "partition_by_string"])
def test_tables_of_delta_spark_read_as_on_a_disk(server, location, spark, name):
    store = open_store(location, server.options)
    for file in (TABLES / name).rglob("*"):
        if file.is_file():
            store.put(file.relative_to(TABLES / name).as_posix(), file.read_bytes())
    original = DeltaTable(TABLES / name).to_spark(spark)
    copy = DeltaTable(location, storage_options=server.options).to_spark(spark)
    assert original.schema == copy.schema
    assert sorted(map(repr, original.collect())) == sorted(map(repr, copy.collect()))


def test_our_writes_make_no_copies_unlike_the_hadoop_committer(server, location, spark):
    # The figures are in docs/stores.md. It uses a new bucket, because Spark accesses the other one without a proxy.
    server.make_bucket("committers")
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "concat('shop ', id % 4) AS shop", "id / 3.0D AS amount")
    with Proxy(server.port) as proxy:
        options = options_of(proxy.url)
        counts = {}
        for version in ("1", "2"):
            committer = {
                "mapreduce.fileoutputcommitter.algorithm.version": version,
                "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
            }
            store = open_store("s3://committers/table", options)
            writer = frame.write.options(**properties(store), **committer).partitionBy("shop")
            writer.parquet(f"s3a://committers/hadoop-{version}")
            counts[f"Hadoop's committer, algorithm {version}"] = proxy.counted()
        write_deltalake(location, frame, partition_by="shop", storage_options=options, engine=SparkEngine(spark))
        our_counts = counts["the library, its commit included"] = proxy.counted()
    for what, requests in counts.items():
        print(f"16 files by {what}: {sum(requests.values())} requests, {requests}")
    assert counts["Hadoop's committer, algorithm 2"]["COPY"] == 16
    assert counts["Hadoop's committer, algorithm 1"]["COPY"] == 32
    assert "COPY" not in our_counts
    assert our_counts["PUT"] <= 16 + 1 + 2  # the first commit of a process to a bucket tests the bucket by two puts


def test_a_load_into_a_bucket(server, location, spark, tmp_path):
    shop = Shop(tmp_path)
    table, refused = f"{location}/sales", f"{location}/refused"
    options = {table: server.options, refused: server.options}
    source = shop.source(
        table=table, quarantine=refused, storage_options=options, suite={"name": "sales", "expectations": [PRICE_RULE]}
    )
    shop.land("a.csv", "1,1.50,one", "2,-2.00,below", "x,1.00,no id")
    assert Load(source).run(spark).to_dict()["rows_quarantined"] == 2
    shop.land("b.csv", "3,3.50,three")
    assert [batch["files"] for batch in Load(source).run(spark).batches] == [["b.csv"]]
    assert delta_rs_ids(table, server.options) == [1, 3]
    reasons = DeltaTable(refused, storage_options=server.options).to_pyarrow_table()["_line"].to_pylist()
    assert sorted(reasons) == [3, 4]
    left = [meta.path for meta in open_store(table, server.options).walk("_ingest") if meta.path.endswith(".parquet")]
    assert left == []
    assert Load(source).nothing_to_do() is not None


def test_a_spark_application_has_one_set_of_options_per_bucket(server, location, spark):
    write_deltalake(location, rows(0), storage_options=server.options)
    DeltaTable(location, storage_options=server.options).to_spark(spark)
    with Proxy(server.port) as proxy:
        table = DeltaTable(location, storage_options=options_of(proxy.url))
        with pytest.raises(InvalidArgumentError, match=r"has read s3a://bucket with other storage options"):
            table.to_spark(spark)
        assert ids(table.to_pyarrow_table()) == list(range(100))


def test_no_secret_is_in_any_output(server, location, spark, spark_folder, capfd):
    options, engine = server.options, SparkEngine(spark)
    write_deltalake(location, spark.range(0, 100), storage_options=options, engine=engine)
    table = DeltaTable(location, storage_options=options, engine=engine)
    frame = table.to_spark(spark)
    assert frame.where("id < 7").count() == 7
    frame.explain(extended=True)
    assert table.delete("id < 7")["num_deleted_rows"] == 7
    settings = [repr(spark.sparkContext.getConf().getAll()), repr(spark.sql("SET -v").collect())]
    commands = [file.read_bytes().decode(errors="replace") for file in Path("/proc").glob("[0-9]*/cmdline")]
    assert any("org.apache.spark.deploy.SparkSubmit" in command for command in commands)
    spoken = capfd.readouterr()
    written = [file.read_text(errors="replace") for file in spark_folder.rglob("*") if file.is_file()]
    assert any("SparkListenerSQLExecutionStart" in text for text in written)
    assert any(" INFO " in text for text in written)
    for text in (*written, *settings, *commands, spoken.out, spoken.err, repr(table), repr(engine)):
        assert SECRET not in text


def test_credentials_of_the_environment(server, location, spark_folder):
    write_deltalake(location, rows(0), storage_options=server.options)
    credentials = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
    place = {"AWS_ENDPOINT_URL": server.url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.s3.spark_session", location, str(spark_folder / "another")],
        env={**os.environ, **credentials, **place},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "100 rows"
    for text in (
        done.stdout,
        done.stderr,
        *(file.read_text() for file in (spark_folder / "another").rglob("*") if file.is_file()),
    ):
        assert SECRET not in text
