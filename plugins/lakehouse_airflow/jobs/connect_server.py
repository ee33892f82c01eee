"""The private file of a job that names a Spark Connect server, from a connection of the type ``spark_connect``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

from lakehouse_airflow.connections.extra import extra_of
from lakehouse_airflow.errors import InvalidConnectionError, InvalidParameterError

if TYPE_CHECKING:
    from airflow.sdk import Connection


def is_connect_server(connection: Connection) -> bool:
    """Whether the connection names a Spark Connect server."""
    return bool(connection.conn_type == SparkConnectHook.conn_type)


def server_file(connection: Connection, properties: Mapping[str, str] | None, driver_memory: str | None) -> str:
    """The text of the private file for ``--spark-connect-file``, as JSON. The text contains the token of the server.

    Args:
        properties: Spark properties of the session.
        driver_memory: must be None, because the driver is in the server.

    Raises:
        AirflowFailException: a field of the connection is not valid, or ``driver_memory`` is given. The message does
            not contain the token.
    """
    name = connection.conn_id
    if driver_memory is not None:
        raise InvalidParameterError(
            f"driver_memory is {driver_memory!r}, but {name!r} is a Spark Connect server, whose driver has its own "
            "memory; leave driver_memory out, and set it when you start the server"
        )
    extra_of(connection)
    if not connection.host:
        raise InvalidConnectionError(
            f"the Spark connection {name!r} has no host; expected the host of a Spark Connect server"
        )
    try:
        url = SparkConnectHook(name).get_connection_url()
    except ValueError:
        raise InvalidConnectionError(
            f"the Spark connection {name!r} has the host {connection.host!r}; expected a host without a path"
        ) from None
    return json.dumps({"url": url, "properties": dict(properties or {})})
