"""A Spark session with s3a. ``python -m tests.s3.spark_session LOCATION FOLDER`` counts a table's rows with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse_lib import DeltaTable

IVY = Path(__file__).parents[2] / ".peers" / "ivy"
#: The version of the Hadoop that pyspark contains.
HADOOP = "3.5.0"

_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""


def session(folder: Path) -> SparkSession:
    """A session that writes its log, at INFO, and its events into ``folder``. For S3 it only has the package."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    events = folder / "events"
    events.mkdir(parents=True)
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING.format(file=folder / "spark.log"))
    return (
        SparkSession.builder.master("local[2]")
        .appName("lakehouse tests on S3")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={logging.as_uri()}")
        .config("spark.jars.ivy", str(IVY))
        .config("spark.jars.packages", f"org.apache.hadoop:hadoop-aws:{HADOOP}")
        .config("spark.jars.excludes", "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.rolling.enabled", "false")
        .config("spark.eventLog.dir", events.as_uri())
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )


def main(location: str, folder: str) -> int:
    spark = session(Path(folder))
    try:
        print(f"{DeltaTable(location).to_spark(spark).count()} rows")
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
