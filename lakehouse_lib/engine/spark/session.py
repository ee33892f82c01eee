"""A Spark session for a process that runs verbs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lakehouse_lib.threads import processors


@contextmanager
def spark_session(name: str, master: str | None = None) -> Iterator[Any]:
    """A Spark session that is stopped at the end of the block. Its time zone is UTC.

    Args:
        name: the name of the application, unless spark-submit sets it.
        master: the master; None: the master of spark-submit, else all cores of this machine (``local[*]``).
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it logs each error again with a Java stack
    SparkContext._ensure_initialized()  # so that the conf below has the properties of spark-submit
    conf = SparkConf()
    if master is not None:
        conf.set("spark.master", master)
    conf.setIfMissing("spark.master", "local[*]")
    if conf.get("spark.app.name", "pyspark-shell") == "pyspark-shell":
        conf.set("spark.app.name", name)
    conf.setIfMissing("spark.ui.enabled", "false")
    conf.set("spark.ui.showConsoleProgress", "false")  # on by default in a Python process
    conf.set("spark.sql.session.timeZone", "UTC")
    # Tasks contain storage options and predicates. Spark writes tasks to local files, which are left after a kill.
    conf.setIfMissing("spark.io.encryption.enabled", "true")
    if conf.get("spark.master", "").startswith("local"):
        conf.setIfMissing("spark.driver.bindAddress", "127.0.0.1")
        conf.setIfMissing("spark.driver.host", "127.0.0.1")
        conf.setIfMissing("spark.sql.shuffle.partitions", str(2 * processors()))
        if not conf.contains("spark.pyspark.python"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
