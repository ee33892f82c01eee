"""The Spark engine on a real Spark Connect server. Each script is a process, because Spark's client is per process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse_lib import InvalidArgumentError, StoreError
from lakehouse_lib.engine.spark import connect
from tests.connect_server import TOKEN, ConnectServer, connect_server, free_port
from tests.peers import read_delta_rs

SCRIPT = """
import json, sys
import pyarrow as pa
from lakehouse_lib import DeltaTable, SparkEngine, write_deltalake
from lakehouse_lib.engine.spark import engine as engine_module
from lakehouse_lib.engine.spark.connect import connect_session
engine_module._DRIVER_BYTES = 0  # the server's workers read the small tables, too
url, path = sys.argv[1:]
with connect_session(url, {"spark.sql.shuffle.partitions": "3"}) as spark:
    engine = SparkEngine(spark)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("connect")) as server:
        yield server


def run(code: str, server: ConnectServer, path: Path, tmp_path: Path) -> Any:
    """The last line that a script prints, as JSON."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "".join(f"    {line}\n" for line in code.strip().splitlines()))
    command = [sys.executable, str(script), server.url, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stderr + done.stdout
    return json.loads(done.stdout.splitlines()[-1])


VERBS = """
rows = "id", "id % 2 AS p", "timestamp'2024-07-01 12:00:00' AS at"
write_deltalake(path, spark.range(100).selectExpr(*rows), partition_by=["p"])
for first in (100, 150):
    write_deltalake(path, spark.range(first, first + 50).selectExpr(*rows), mode="append")
write_deltalake(path, pa.table({"id": [900], "p": [0]}), mode="append", engine=engine)
table = lambda: DeltaTable(path, engine=engine)
table().delete("id % 10 = 3")                                                    # by the workers: 20 rows
table().delete("crc32(cast(cast(id AS string) AS binary)) % 10 = 1 AND p = 1")   # by Spark's scan
table().update(updates={"at": "timestamp'2025-01-01 00:00:00'"}, predicate="id < 10")
updates = {"id": "id + crc32(cast('' AS binary)) + 1000"}
table().update(updates=updates, predicate="id = 0")                              # by Spark: 0 becomes 1000
source = spark.range(195, 205).selectExpr(*rows)
merge = table().merge(source, "t.id = s.id", source_alias="s", target_alias="t")
merge.when_matched_delete().when_not_matched_insert_all().execute()
compacted = table().optimize.compact()
ordered = table().optimize.z_order(["id", "at"])
vacuumed = table().vacuum(0, dry_run=False, enforce_retention_duration=False)
frame = table().to_spark(spark, filters="id < 20 OR id >= 195")
try:
    write_deltalake(path, spark.range(2).selectExpr("id + raise_error('boo') AS id", "id AS p"), mode="append")
except Exception as error:
    failure = f"{type(error).__name__}: {error}"
try:
    engine.run(int, ["x"])
except Exception as error:
    fault = str(error)
print(json.dumps({
    "shares_disk": engine.shares_disk, "parallelism": engine.parallelism,
    "zone": spark.conf.get("spark.sql.session.timeZone"),
    "compacted": compacted["numFilesRemoved"], "ordered": ordered["numFilesAdded"], "vacuumed": len(vacuumed),
    "rows": sorted(row.id for row in frame.collect()), "failure": failure, "fault": fault,
}))
"""


@pytest.mark.slow  # a Spark Connect server
@pytest.mark.timeout(600)
def test_verbs_run_on_a_connect_server(server: ConnectServer, tmp_path: Path) -> None:
    answer = run(VERBS, server, tmp_path / "t", tmp_path)
    rows = read_delta_rs(tmp_path / "t")
    by_id = dict(zip(rows["id"].to_pylist(), rows["at"].to_pylist(), strict=True))
    assert len(by_id) == len(rows)
    rest = {id for id in range(195) if id % 10 != 3}
    expected = {id for id in rest if id % 2 == 0 or crc32(id) % 10 != 1} - {0} | {900, 1000, *range(200, 205)}
    # The rows 195 to 199 that were left are deleted by the merge, and those that were deleted before are inserted.
    expected |= {id for id in range(195, 200) if id % 2 == 1 and crc32(id) % 10 == 1}
    assert set(by_id) == expected
    assert {str(by_id[id])[:19] for id in (2, 4, 1000)} == {"2025-01-01 00:00:00"}  # in UTC
    assert answer["rows"] == sorted(id for id in expected if id < 20 or id >= 195)
    assert answer["zone"] == "UTC"
    assert answer["shares_disk"] is False
    assert answer["parallelism"] == 2
    assert answer["compacted"] > 2
    assert answer["vacuumed"] > 0
    assert "[DELTA_SPARK_JOB_FAILED] the Spark job failed: [USER_RAISED_EXCEPTION] boo" in answer["failure"]
    assert "the Spark job failed: ValueError: invalid literal for int()" in answer["fault"]
    assert "\n" not in answer["failure"] + answer["fault"]


def crc32(number: int) -> int:
    import zlib

    return zlib.crc32(str(number).encode())


LOADS = """
import warnings
from pathlib import Path
warnings.simplefilter("ignore")  # of Great Expectations
from lakehouse_lib.ingestion.batches import batch
from lakehouse_lib.ingestion.load import Load
from tests.spark_jobs.loading import UNIQUE_IDS, Shop
batch.IN_PROCESS_BYTES = 0  # by the server's workers
shop = Shop(Path(path))
DeltaTable.create(
    shop.table, shop.source().schema.to_arrow(), configuration={"delta.constraints.c": "note RLIKE '^x'"}
)
shop.land("a.csv", "1,5,x", "bad,5,x")
assert Load(shop.source()).needs_spark()
Load(shop.source()).run(spark)
shop.land("b.csv", "2,5,x", "3,5,x", "3,6,x")
Load(shop.source(suite={"name": "sales", "expectations": [UNIQUE_IDS]})).run(spark)
shop.land("c.csv", "4,5,y")
try:
    Load(shop.source()).run(spark)
except Exception as error:
    refusal = f"{type(error).__name__}: {error}"
print(json.dumps([shop.ids(), len(shop.quarantined()), refusal]))
"""


@pytest.mark.slow  # a Spark Connect server
@pytest.mark.timeout(600)
def test_loads_run_on_a_connect_server(server: ConnectServer, tmp_path: Path) -> None:
    ids, quarantined, refusal = run(LOADS, server, tmp_path / "shop", tmp_path)
    assert (ids, quarantined) == ([1, 2], 3)
    assert refusal.startswith("QualityError: ")


UNREADABLE = """
import shutil
from lakehouse_lib.engine.spark.read import manifest as lists
write_deltalake(path, pa.table({"id": [1]}))
make = lists.manifest
def hidden(*arguments, **options):
    folder = make(*arguments, **options)
    shutil.rmtree(folder.removeprefix("file:"))
    return folder
lists.manifest = hidden
try:
    DeltaTable(path, engine=engine).to_spark(spark)
    print(json.dumps(None))
except Exception as error:
    print(json.dumps(f"{type(error).__name__}: {error}"))
"""


@pytest.mark.slow  # a Spark Connect server
@pytest.mark.timeout(300)
def test_a_server_on_another_machine_is_not_reported_as_missing_rows(server: ConnectServer, tmp_path: Path) -> None:
    message = run(UNREADABLE, server, tmp_path / "t", tmp_path)
    assert message.startswith(
        "InvalidArgumentError: [DELTA_SPARK_CONFIGURATION] the Spark Connect server does not find"
    )
    assert "set TMPDIR" in message


@pytest.mark.slow  # a Spark Connect server
@pytest.mark.timeout(300)
def test_a_wrong_token_and_a_property_of_the_application_are_refused(server: ConnectServer, tmp_path: Path) -> None:
    code = """
messages = []
for other, properties in ((url.replace("hunter2", "wrong"), {}), (url, {"spark.executor.memory": "1g"})):
    try:
        with connect_session(other, properties):
            messages.append("accepted")
    except Exception as error:
        messages.append(f"{type(error).__name__}: {error}")
print(json.dumps(messages))
"""
    token, memory = run(code, server, tmp_path, tmp_path)
    assert "refuses the session" in token
    assert "wrong-of-connect" not in token
    assert "refuses the property spark.executor.memory" in memory


def test_an_unreachable_server_and_a_wrong_url_are_errors_without_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "_SECONDS_TO_ANSWER", 0.2)
    port = free_port()
    with (
        pytest.raises(
            StoreError, match=f"server localhost:{port} has not answered .*start-connect-server.sh"
        ) as silent,
        connect.connect_session(f"sc://localhost:{port}/;token={TOKEN}", {}),
    ):
        pass
    with (
        pytest.raises(InvalidArgumentError, match="the URL of the Spark Connect server is not valid") as invalid,
        connect.connect_session(f"sc://localhost/x;token={TOKEN}", {}),
    ):
        pass
    assert TOKEN not in f"{silent.value} {invalid.value}"
