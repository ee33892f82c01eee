"""Access of Spark to a bucket: Hadoop's s3a, with the table's storage options as properties of the bucket."""

from __future__ import annotations

from lakehouse_lib.store.base import SparkAccess
from lakehouse_lib.store.s3.options import S3Options

_PACKAGE = "org.apache.hadoop:hadoop-aws"
_JAVA_PACKAGE = "org.apache.hadoop.fs.s3a"
_DEFAULT_REGION = "us-east-1"


def spark_access(location: str, options: S3Options) -> SparkAccess:
    """The access of Spark to ``s3://bucket/key``.

    If the options have no credentials, the properties have none, either. Spark then finds credentials itself, in the
    environment that it was started with, or through ``spark.hadoop.fs.s3a.aws.credentials.provider``.
    """
    place = location.removeprefix("s3://")
    bucket = place.partition("/")[0]
    properties = {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in _bucket_properties(options).items()}
    return SparkAccess(f"s3a://{place}", properties, _PACKAGE)


def _bucket_properties(options: S3Options) -> dict[str, str]:
    properties = {}
    if options.skip_signature:
        properties["aws.credentials.provider"] = f"{_JAVA_PACKAGE}.AnonymousAWSCredentialsProvider"
    elif options.access_key_id is not None and options.secret_access_key is not None:
        kind = "Simple" if options.session_token is None else "Temporary"
        properties["aws.credentials.provider"] = f"{_JAVA_PACKAGE}.{kind}AWSCredentialsProvider"
        properties["access.key"], properties["secret.key"] = options.access_key_id, options.secret_access_key
        if options.session_token is not None:
            properties["session.token"] = options.session_token
    if options.endpoint_url is not None:
        properties["endpoint"] = options.endpoint_url
        properties["endpoint.region"] = options.region or _DEFAULT_REGION
        properties["connection.ssl.enabled"] = str(options.endpoint_url.startswith("https:")).lower()
        properties["path.style.access"] = str(not options.virtual_hosted_style).lower()
    elif options.region is not None:
        properties["endpoint.region"] = options.region
    return properties
