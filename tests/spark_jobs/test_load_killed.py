"""The ingest job is killed (SIGKILL) within a batch; the next run loads each row exactly once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_lib.ingestion.load import Load
from tests.peers import read_duckdb
from tests.spark_jobs.loading import Shop

pytestmark = pytest.mark.slow

# A program that runs the job, with one of its functions wrapped to kill the process before or after it.
KILLED_JOB = """
import os, signal, sys
from lakehouse_lib.ingestion import intent_log
from lakehouse_lib.transaction import OptimisticTransaction
from spark_jobs import ingest, job

when, table = sys.argv[1], sys.argv[2]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
put, commit = intent_log.IntentLog.put, OptimisticTransaction.commit

def killed_put(self, entry):
    if when == "before the intent":
        die()
    done = put(self, entry)
    if when == "after the intent":
        die()
    return done

def killed_commit(self, properties=None):
    mine = self._store.root == table
    if (when == "before quarantine" and not mine) or (when == "after the files" and mine):
        die()
    outcome = commit(self, properties)
    if when == "after the commit" and mine:
        die()
    return outcome

intent_log.IntentLog.put = killed_put
OptimisticTransaction.commit = killed_commit
sys.exit(job.run_job(ingest.arguments(), ingest.prepare, sys.argv[3:]))
"""


@pytest.mark.parametrize(
    "when", ["before the intent", "after the intent", "before quarantine", "after the files", "after the commit"]
)
def test_killed_batch_is_loaded_exactly_once(spark: SparkSession, tmp_path: Path, when: str) -> None:
    shop = Shop(tmp_path)
    shop.land("a.csv", "1,5,x", "bad,5,x", "2,5,x")
    shop.land("b.csv", "3,5,x", "4,bad,x")
    died = subprocess.run(
        [sys.executable, "-c", KILLED_JOB, when, str(shop.table), *shop.command_line()],
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()[-2000:]
    visible = shop.ids() if (shop.table / "_delta_log").exists() else []
    assert visible == ([1, 2] if when == "after the commit" else [])
    Load(shop.source()).run(spark)
    assert shop.ids() == [1, 2, 3]
    assert read_duckdb(shop.table)["id"].to_pylist() == [1, 2, 3]
    assert shop.quarantined() == [
        ("a.csv", 3, "id", "not a valid long"),
        ("b.csv", 3, "price", "not a valid decimal(15,2)"),
    ]
    assert shop.transaction() == 1
    assert shop.staged() == []
    assert Load(shop.source()).nothing_to_do() is not None
