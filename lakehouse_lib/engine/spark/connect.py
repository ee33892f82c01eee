"""Spark Connect: sessions of a remote Spark server, with which a client communicates by gRPC.

Such a session has no ``SparkContext``. Its driver runs in the server, so local paths are paths on the server's machine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lakehouse_lib.errors import DeltaError, InvalidArgumentError, StoreError

#: A connection fails if the server does not answer within this number of seconds. Spark's own client retries for ten
#: minutes.
_SECONDS_TO_ANSWER = 30.0
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"


def context_of(spark: Any) -> Any | None:
    """The session's ``SparkContext``; None: it is a session of Spark Connect."""
    return None if is_connect(spark) else spark.sparkContext


def is_connect(spark: Any) -> bool:
    """Whether the session is a session of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def connect_session(url: str, properties: Mapping[str, str]) -> Iterator[Any]:
    """Open a session of a Spark Connect server for the block, and stop the session at its end.

    Args:
        url: ``sc://HOST:PORT/;PARAMETER=VALUE;...``. The URL may contain a token; no error contains the token.
        properties: Spark properties of the session.

    Raises:
        StoreError: the server does not answer, the server refuses the session (for example because of the token),
            or a package of the client is missing.
        InvalidArgumentError: the URL is not valid, or the server refuses a property.
    """
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it logs each error again, with the plan
    builder, endpoint = _channel_builder(url)
    from pyspark.sql.connect.session import SparkSession

    _check_answer(builder, endpoint)
    with _connect_functions():
        spark = SparkSession.builder.channelBuilder(builder).create()
        try:
            _configure(spark, properties, endpoint)
            yield spark
        finally:
            spark.stop()


@contextmanager
def _connect_functions() -> Iterator[None]:
    """Let the functions of ``pyspark.sql.functions`` return columns of Spark Connect in the block.

    They look for an environment variable. Unlike SPARK_REMOTE, this one does not contain the token.
    """
    before = os.environ.get(_CONNECT_MODE)
    os.environ[_CONNECT_MODE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CONNECT_MODE]
        else:
            os.environ[_CONNECT_MODE] = before


def _configure(spark: Any, properties: Mapping[str, str], endpoint: str) -> None:
    """Make the first request, and set the properties of the session.

    Raises:
        StoreError: the server refuses the session.
        InvalidArgumentError: the server refuses a property.
    """
    from pyspark.errors import PySparkException

    try:
        spark.version  # noqa: B018 - the first request, which the server may refuse
    except PySparkException as error:
        raise _connection_error(
            f"the Spark Connect server {endpoint} refuses the session: {_first_line(error)}",
            "Check the token of the connection",
        ) from None
    for name, value in {**properties, "spark.sql.session.timeZone": "UTC"}.items():
        try:
            spark.conf.set(name, value)
        except PySparkException as error:
            raise InvalidArgumentError(
                f"the Spark Connect server {endpoint} refuses the property {name}: {_first_line(error)}",
                hint="Set properties of the application when you start the server; a session has only properties "
                "of Spark SQL",
                code="DELTA_SPARK_CONFIGURATION",
            ) from None


def _channel_builder(url: str) -> tuple[Any, str]:
    """The builder of gRPC channels to a server, and the server's endpoint (``HOST:PORT``)."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql.connect.client import DefaultChannelBuilder
    except ImportError as error:
        raise _connection_error(
            f"Spark Connect needs a package that is missing: {_first_line(error)}",
            "Install pyspark[connect] in the version of the installed pyspark; do not install pyspark-client beside it",
        ) from error
    try:
        builder = DefaultChannelBuilder(url)
    except (PySparkException, ValueError):  # the message has the URL and its token
        raise InvalidArgumentError(
            "the URL of the Spark Connect server is not valid; expected sc://HOST:PORT/;PARAMETER=VALUE",
            hint="Check host, port and parameters of the connection",
            code="DELTA_SPARK_CONFIGURATION",
        ) from None
    return builder, builder.endpoint


def _check_answer(builder: Any, endpoint: str) -> None:
    """Check that the server answers within ``_SECONDS_TO_ANSWER``.

    Raises:
        StoreError: the server does not answer.
    """
    import grpc  # type: ignore[import-untyped]

    channel = builder.toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=_SECONDS_TO_ANSWER)
    except grpc.FutureTimeoutError:
        raise _connection_error(
            f"the Spark Connect server {endpoint} has not answered within {_SECONDS_TO_ANSWER:.0f} seconds",
            "Start the server with Spark's sbin/start-connect-server.sh, and check host, port and use_ssl of the "
            "connection; with a token, the client uses TLS unless the host is localhost",
        ) from None
    finally:
        channel.close()


def _connection_error(message: str, hint: str) -> DeltaError:
    return StoreError(message, hint=hint, code="DELTA_SPARK_CONFIGURATION")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
