"""The Spark sessions of the contestants: all have the same settings."""

from __future__ import annotations

import os
import sys
from typing import Any


def builder(driver_memory: str) -> Any:
    """A builder of a session with two threads, and with four partitions for each shuffle instead of 200."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .appName("benchmarks")
        .config("spark.driver.memory", driver_memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
    )


def started(builder: Any) -> Any:
    """The builder's session, after a first job."""
    session = builder.getOrCreate()
    session.range(1).count()
    return session
