"""Python workers without the library: a local master uses the driver's interpreter; elsewhere the error is clear."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, SparkEngine, write_deltalake
from lakehouse_lib.engine.spark import workers as spark_workers

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from lakehouse_lib import DeltaTable, SparkEngine
builder = SparkSession.builder.master(sys.argv[2]).config("spark.ui.enabled", "false")
builder = builder.config("spark.executor.memory", "512m").config("spark.driver.memory", "512m")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
with builder.getOrCreate() as spark:
    table = DeltaTable(sys.argv[1], engine=SparkEngine(spark))
    try:
        print("compacted", table.optimize.compact()["numFilesAdded"])
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""


def run_plainly(tmp_path: Path, master: str) -> str:
    """The output of a script without PYSPARK_PYTHON, if ``python3`` is a Python without the library."""
    for _ in range(2):
        write_deltalake(tmp_path / "t", pa.table({"id": [1, 2]}), mode="append")
    other, hidden = tmp_path / "bin" / "python3", tmp_path / "hidden"
    other.parent.mkdir()
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['lakehouse_lib'] = None\n")
    other.write_text(f'#!/bin/sh\nPYTHONPATH="{hidden}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "PYTHON"))}
    env |= {"PATH": f"{other.parent}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", str(tmp_path / "t"), master]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow  # its own Spark session
def test_a_plain_script_on_a_local_master_runs_its_own_interpreter(tmp_path):
    assert run_plainly(tmp_path, "local[1]") == "compacted 1"


@pytest.mark.slow  # its own Spark session
def test_on_other_masters_the_error_names_the_setting(tmp_path):
    printed = run_plainly(tmp_path, "local-cluster[1,1,512]")
    assert printed.startswith("StoreError: [DELTA_SPARK_CONFIGURATION] Spark's Python workers (")
    assert ") cannot import this library: ModuleNotFoundError: " in printed
    assert "Set PYSPARK_PYTHON (spark.pyspark.python for spark-submit) to a Python 3." in printed


def test_a_remote_session_is_checked_once(spark, tmp_path, monkeypatch):
    answers = []
    check = spark_workers._check
    monkeypatch.setattr(spark_workers, "runs_here", lambda _: False)
    monkeypatch.setattr(spark_workers, "_check", lambda session: answers.append(check(session)))
    spark_workers._ready.discard(spark)
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    for _ in range(2):
        write_deltalake(tmp_path, pa.table({"id": [1]}), mode="append")
        assert DeltaTable(tmp_path, engine=SparkEngine(spark)).optimize.compact()["numFilesAdded"] == 1
    assert len(answers) == 1


def test_workers_with_another_version_of_the_library_are_refused(spark, monkeypatch):
    monkeypatch.setattr(spark_workers.distribution, "VERSION", "99.1")
    with pytest.raises(spark_workers.StoreError, match=r"have lakehouse-lib .*; expected 99\.1.*PYSPARK_PYTHON"):
        spark_workers._check(spark)
