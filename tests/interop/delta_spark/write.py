"""Write the tables of ``tables/*.sql`` with delta-spark, and what delta-spark itself reads from each.

Runs in delta-spark's own environment, not in the project's: ``python write.py FOLDER [TABLE ...]``. Below FOLDER,
``tables/NAME`` is a table and ``expected/NAME`` has the answers: ``manifest.json`` (one line for each version: schema,
time, operation, the file of its rows) and Arrow files of rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from delta import DeltaTable, configure_spark_with_delta_pip
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from scripts import DIRECTIVE, scripts

#: Java exceptions, those that PySpark knows and others.
FAILURES = (PySparkException, Py4JJavaError)
LOG_FILE = re.compile(r"\.?(\d{20})\.(json|crc|checkpoint\..*|\d{20}\.compacted\.json.*)(\.crc)?")


def main(folder: Path, names: set[str]) -> int:
    steps_of = scripts()
    if unknown := names - set(steps_of):
        raise SystemExit(f"no such table: {', '.join(sorted(unknown))}")
    spark = session(folder)
    try:
        failed = written(spark, folder, {name: steps for name, steps in steps_of.items() if not names or name in names})
    finally:
        spark.stop()
    print(f"{len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    return 1 if failed else 0


def written(spark: SparkSession, folder: Path, steps_of: dict[str, list[str]]) -> list[str]:
    """Write tables and record their rows; returns the names of the tables that delta-spark could not write."""
    failed = []
    for name, steps in steps_of.items():
        started = time.monotonic()
        try:
            write(spark, folder, name, steps)
            versions = record(spark, folder / "tables" / name, folder / "expected" / name)
            print(f"{name}: {versions} versions, {time.monotonic() - started:.1f} s", flush=True)
        except FAILURES as error:
            failed.append(name)
            shutil.rmtree(folder / "expected" / name, ignore_errors=True)
            print(f"{name}: FAILED: {reason(error)}", flush=True)
    return failed


def session(folder: Path) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("tables of delta-spark")
        .config("spark.driver.memory", "2g")
        # The statements are short, so compiling them would take longer than running them.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.jars.ivy", str(folder.resolve().parent / "ivy"))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        # A CHAR column is text in the log and in the files; only Spark pads it in results.
        .config("spark.sql.readSideCharPadding", "false")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration", "false")
    )
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


# --- writing


def write(spark: SparkSession, folder: Path, name: str, steps: list[str]) -> None:
    path = (folder / "tables" / name).resolve()
    shutil.rmtree(path, ignore_errors=True)
    places = {"$tables": str(path.parents[len(Path(name).parts) - 1]), "$table": f"delta.`{path}`", "$path": str(path)}
    settings: dict[str, str | None] = {}
    times = 1
    for step in steps:
        if directive := DIRECTIVE.fullmatch(step):
            numbers = [int(number) for number in directive[2].split()]
            if directive[1] == "repeated":
                (times,) = numbers
            else:
                {"cleaned": clean, "aged": age, "compacted": compact}[directive[1]](path / "_delta_log", *numbers)
                forget_cached_logs(spark)
            continue
        if setting := re.fullmatch(r"SET (\S+?)=(.*)", step):
            settings.setdefault(setting[1], spark.conf.get(setting[1], None))
            spark.conf.set(setting[1], setting[2])
            continue
        for place, value in places.items():
            step = step.replace(place, value)
        for n in range(times):
            spark.sql(step.replace("$n", str(n)))
        times = 1
    for key, value in settings.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


def forget_cached_logs(spark: SparkSession) -> None:
    spark.sparkContext._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def log_files(log: Path) -> Iterator[tuple[int, Path]]:
    for path in sorted(log.iterdir()):
        if match := LOG_FILE.fullmatch(path.name):
            yield int(match[1]), path


def clean(log: Path, before: int) -> None:
    for version, path in log_files(log):
        if version < before:
            path.unlink()


def age(log: Path, first: int, last: int, days: int) -> None:
    for version, path in log_files(log):
        if first <= version <= last:
            # Commit seconds apart, so that times rise with the versions.
            moment = time.time() - days * 86400 + version
            os.utime(path, (moment, moment))


def compact(log: Path, first: int, last: int) -> None:
    """The latest action of each key in these commits, without commitInfo (PROTOCOL.md, Log Compaction Files)."""
    latest: dict[tuple[object, ...], dict[str, Any]] = {}
    for version in range(first, last + 1):
        commit = [json.loads(line) for line in (log / f"{version:020d}.json").read_text().splitlines()]
        # Within a commit, apply the remove of a file before the add of the same file with another vector.
        for action in sorted(commit, key=lambda action: "add" in action):
            ((kind, value),) = action.items()
            if kind in ("add", "remove"):
                vector = value.get("deletionVector") or {}
                latest[("file", value["path"], json.dumps(vector, sort_keys=True))] = action
            elif kind in ("metaData", "protocol"):
                latest[(kind,)] = action
            elif kind == "txn":
                latest[(kind, value["appId"])] = action
            elif kind == "domainMetadata":
                latest[(kind, value["domain"])] = action
    lines = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in latest.values())
    (log / f"{first:020d}.{last:020d}.compacted.json").write_text(lines)


# --- the rows that delta-spark reads


def record(spark: SparkSession, table: Path, expected: Path, *, changes: bool = True) -> int:
    """Write what delta-spark reads at each version, and the change data feed; returns the number of readable versions.

    Args:
        changes: whether the feed is written, if the table has it.
    """
    shutil.rmtree(expected, ignore_errors=True)
    expected.mkdir(parents=True)
    forget_cached_logs(spark)
    commits = DeltaTable.forPath(spark, str(table)).history()
    history = {
        row["version"]: {"timestamp": row["at"], "operation": row["operation"]}
        for row in commits.selectExpr("version", "unix_millis(timestamp) AS at", "operation").collect()
    }
    latest = max(history)
    versions = []
    for version in range(latest + 1):
        try:
            frame = read(spark, table, versionAsOf=version)
            rows = arrow(frame)
        except FAILURES as error:
            versions.append({"version": version, "refused": reason(error)})
            continue
        entry = {"version": version, "rows": keep(rows, expected), "schema": json.loads(frame.schema.json())}
        versions.append(entry | history.get(version, {}))
    manifest: dict[str, Any] = {"versions": versions}
    for start in range(latest + 1 if changes else 0):
        try:
            feed = arrow(read(spark, table, readChangeFeed="true", startingVersion=start))
        except FAILURES:
            continue
        manifest["changes"] = {"from": start, "rows": keep(feed, expected)}
        break
    (expected / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False))
    return sum("rows" in entry for entry in versions)


def reason(error: Exception) -> str:
    """The line of an exception with the reason, without Java's stack and the folder of the tables."""
    text = re.sub(r"file:/\S*/", "", str(error))
    match = re.search(r"\[[A-Z_.]{8,}\].*", text)
    return (match[0] if match else text.splitlines()[0])[:300]


def read(spark: SparkSession, table: Path, **options: object) -> DataFrame:
    reader = spark.read.format("delta")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(table))


def arrow(frame: DataFrame) -> pa.Table:
    # DataFrame.toArrow casts the collected rows, which fails for variants inside other types.
    batches = frame._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else frame.toArrow()


def keep(rows: pa.Table, folder: Path) -> str:
    """Write these rows and return the file's name; versions with the same rows share a file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    data = sink.getvalue().to_pybytes()
    name = f"{hashlib.sha256(data).hexdigest()[:12]}.arrow"
    (folder / name).write_bytes(data)
    return name


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), set(sys.argv[2:])))
