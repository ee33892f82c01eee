"""How Spark's own readers get to the files of a table's store: by one of Hadoop's file systems.

The properties of a location go with each scan: no setting of the session changes, and no plan, log line or command line
has them. Hadoop keeps one connection a host and process, made by the first scan's, so a host whose properties change is
refused.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.base import SparkAccess

# By Spark application, scheme and host: the properties of the first scan.
_connections: dict[tuple[str, str], Mapping[str, str]] = {}
_lock = threading.Lock()


def properties(store: ObjectStore) -> dict[str, str]:
    """Hadoop's properties for the table and its allowed roots; secrets are among them."""
    return {name: value for access in _accesses(store) for name, value in access.properties.items()}


def options(spark: Any, store: ObjectStore) -> dict[str, str]:
    """Options of a scan or a write by which Spark reaches the table's files; none for a table on a disk.

    Raises:
        InvalidArgumentError: Spark lacks the file system, or was connected to the host by other properties.
    """
    accesses = _accesses(store)
    if not any(access.package or access.properties for access in accesses):
        return {}
    from pyspark.errors import PySparkAttributeError

    try:
        context = spark.sparkContext
    except PySparkAttributeError:  # Spark Connect: its server knows what it has
        return properties(store)
    _check_package(context, accesses[0], store)
    with _lock:
        for access in accesses:
            host, _ = split_uri(access.uri)
            if _connections.setdefault((context.applicationId, host), access.properties) != access.properties:
                raise InvalidArgumentError(
                    f"this Spark application has read {host} with other storage options",
                    table=store.root,
                    hint="Hadoop keeps its connection: read with the same options, or start another Spark application",
                    code="DELTA_SPARK_CONFIGURATION",
                )
    return properties(store)


def uri(store: ObjectStore, location: str) -> str:
    """The table's folder or an allowed root as Spark calls it, nothing encoded, without a slash at its end."""
    return store.spark_access(location).uri.rstrip("/")


def split_uri(uri: str) -> tuple[str, str]:
    """Scheme and host of a URI, and its path: ``hdfs://host`` and ``/x``, or ``file:`` and ``/x`` of ``file:/x``."""
    scheme, _, rest = uri.partition(":")
    host = f"//{rest[2:].partition('/')[0]}" if rest.startswith("//") else ""
    return f"{scheme}:{host}", rest.removeprefix(host)


def _accesses(store: ObjectStore) -> list[SparkAccess]:
    return [store.spark_access(location) for location in (store.root, *store.allowed_roots)]


def _check_package(context: Any, access: SparkAccess, store: ObjectStore) -> None:
    if not access.package:
        return
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    scheme, hadoop = access.uri.partition(":")[0], context._jvm.org.apache.hadoop
    try:
        hadoop.fs.FileSystem.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        raise InvalidArgumentError(
            f"Spark has no file system for {scheme}: locations",
            table=store.root,
            hint=f"Start it with spark.jars.packages={access.package}:{hadoop.util.VersionInfo.getVersion()}, or leave "
            "Spark out: to_pyarrow_table() gives rows that spark.createDataFrame takes",
            code="DELTA_SPARK_CONFIGURATION",
        ) from error
