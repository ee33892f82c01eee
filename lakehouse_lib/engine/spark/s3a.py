"""How Spark's own Parquet reader gets to a table in S3: by Hadoop's s3a, with the options of the table's store.

They go with each scan, as properties of its bucket: no setting of the session changes, and no plan, log line or command
line has them. Hadoop keeps one connection a bucket and process, made by the first scan's, so a bucket whose settings
change is refused.
"""

from __future__ import annotations

import threading
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store import ObjectStore

_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_PROVIDERS = "org.apache.hadoop.fs.s3a"
_DEFAULT_REGION = "us-east-1"

# By Spark application and bucket: what the first scan went there by.
_reached: dict[tuple[str, str], dict[str, str]] = {}
_lock = threading.Lock()


def is_in_s3(store: ObjectStore) -> bool:
    return store.root.startswith("s3://")


def properties(store: ObjectStore) -> dict[str, str]:
    """Hadoop's properties for the buckets of the table and of its allowed roots; secrets are among them.

    Without credentials among the store's options there are none here: Spark looks for them by itself, in the
    environment it was started with, or as ``spark.hadoop.fs.s3a.aws.credentials.provider`` says.
    """
    return {
        f"fs.s3a.bucket.{bucket}.{name}": value
        for bucket in _buckets(store)
        for name, value in _of_a_bucket(store).items()
    }


def scan_options(spark: Any, store: ObjectStore) -> dict[str, str]:
    """Options of a scan by which Spark reaches the table's files; none for a table on a disk.

    Raises:
        InvalidArgumentError: Spark has no s3a, or its connection to the bucket has been made by other settings.
    """
    if not is_in_s3(store):
        return {}
    from pyspark.errors import PySparkAttributeError

    try:
        context = spark.sparkContext
    except PySparkAttributeError:  # Spark Connect: its server knows what it has
        return properties(store)
    _check_has_s3a(context, store)
    mine = _of_a_bucket(store)
    with _lock:
        for bucket in _buckets(store):
            if _reached.setdefault((context.applicationId, bucket), mine) != mine:
                raise InvalidArgumentError(
                    f"this Spark application has read the bucket {bucket} with other storage options",
                    table=store.root,
                    hint="Hadoop keeps its connection to a bucket: read it with the same options, or start another "
                    "Spark application",
                    code="DELTA_SPARK_CONFIGURATION",
                )
    return properties(store)


def uri(location: str) -> str:
    """``s3://bucket/key`` as Spark calls it."""
    return f"s3a://{location.removeprefix('s3://')}"


def folder(store: ObjectStore) -> str:
    """The table's folder as Spark calls it, nothing encoded."""
    return uri(store.root) if is_in_s3(store) else f"file:{store.root}"


def _check_has_s3a(context: Any, store: ObjectStore) -> None:
    if context._jsc.hadoopConfiguration().getClassByNameOrNull(_CLASS) is not None:
        return
    version = context._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    raise InvalidArgumentError(
        "Spark has nothing to read tables in S3 with",
        table=store.root,
        hint=f"Start it with spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}, or leave Spark out: "
        "to_pyarrow_table() gives rows that spark.createDataFrame takes",
        code="DELTA_SPARK_CONFIGURATION",
    )


def _buckets(store: ObjectStore) -> list[str]:
    places = (store.root, *store.allowed_roots)
    return list(dict.fromkeys(one.removeprefix("s3://").partition("/")[0] for one in places))


def _of_a_bucket(store: ObjectStore) -> dict[str, str]:
    from lakehouse_lib.store.s3.s3_store import S3Store

    assert isinstance(store, S3Store)
    options, found = store.options, {}
    if options.skip_signature:
        found["aws.credentials.provider"] = f"{_PROVIDERS}.AnonymousAWSCredentialsProvider"
    elif options.access_key_id is not None and options.secret_access_key is not None:
        kind = "Simple" if options.session_token is None else "Temporary"
        found["aws.credentials.provider"] = f"{_PROVIDERS}.{kind}AWSCredentialsProvider"
        found["access.key"], found["secret.key"] = options.access_key_id, options.secret_access_key
        if options.session_token is not None:
            found["session.token"] = options.session_token
    if options.endpoint_url is not None:
        found["endpoint"] = options.endpoint_url
        found["endpoint.region"] = options.region or _DEFAULT_REGION
        found["connection.ssl.enabled"] = str(options.endpoint_url.startswith("https:")).lower()
        found["path.style.access"] = str(not options.virtual_hosted_style).lower()
    elif options.region is not None:
        found["endpoint.region"] = options.region
    return found
