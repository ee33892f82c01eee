"""Access of Spark's own readers and writers to the files of a table's store, by Hadoop's file systems.

The properties of a location are passed with each scan. They do not change settings of the session, and they are not in
plans, logs or command lines. Hadoop keeps one connection per host and process, made with the properties of the first
scan, so a scan with other properties for the same host is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse_lib.engine.spark.connect import context_of
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store import ObjectStore, SparkAccess
from lakehouse_lib.threads import ProcessLock

# By Spark application, scheme and host: the properties of the first scan.
_connections: dict[tuple[str, str], Mapping[str, str]] = {}
_lock = ProcessLock()


def properties(store: ObjectStore) -> dict[str, str]:
    """Hadoop's properties for the table and its allowed roots; they may contain secrets."""
    return {name: value for access in _accesses(store) for name, value in access.properties.items()}


def options(spark: Any, store: ObjectStore) -> dict[str, str]:
    """The options of a scan or write with which Spark accesses the table's files; empty for a table on a disk.

    Raises:
        InvalidArgumentError: Spark lacks the file system, or has connected to the host with other properties.
    """
    accesses = _accesses(store)
    if not any(access.package or access.properties for access in accesses):
        return {}
    context = context_of(spark)
    if context is None:  # the server of Spark Connect cannot be checked
        return properties(store)
    _check_package(context, accesses[0], store)
    with _lock:
        for access in accesses:
            host, _ = split_uri(access.uri)
            if _connections.setdefault((context.applicationId, host), access.properties) != access.properties:
                raise InvalidArgumentError(
                    f"this Spark application has read {host} with other storage options",
                    table=store.root,
                    hint="Hadoop keeps the first connection: use the same options, or start another Spark application",
                    code="DELTA_SPARK_CONFIGURATION",
                )
    return properties(store)


def uri(store: ObjectStore, location: str) -> str:
    """The URI of the table's folder or an allowed root for Spark, without percent-encoding and final slash."""
    return store.spark_access(location).uri.rstrip("/")


def split_uri(uri: str) -> tuple[str, str]:
    """The scheme and host of a URI, and its path: ``hdfs://host`` and ``/x``, or ``file:`` and ``/x``."""
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
            hint=f"Start Spark with spark.jars.packages={access.package}:{hadoop.util.VersionInfo.getVersion()}, or "
            "use spark.createDataFrame with the rows of to_pyarrow_table()",
            code="DELTA_SPARK_CONFIGURATION",
        ) from error
