"""The extra JSON of a connection, taken at its word."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Connection


def extra_of(connection: Connection) -> dict[str, Any]:
    """What the extra says; a key that is null says nothing.

    Airflow takes one that is torn for an empty one. Then a table would be opened by other means than were written
    there.

    Raises:
        AirflowFailException: it is not a JSON object. Nothing of it is shown, because it may hold secrets.
    """
    if not (connection.extra or "").strip():
        return {}
    try:
        is_object = isinstance(json.loads(connection.extra), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise AirflowFailException(
            f"the extra of the connection {connection.conn_id!r} is no JSON object: write it as "
            '{"key": "value"}, or leave it empty'
        )
    # By Airflow, which masks the secrets in it.
    return {key: value for key, value in connection.extra_dejson.items() if value is not None}


def taken_as_object(extra: dict[str, Any], key: str, connection: str) -> dict[str, Any]:
    """Takes a key out of the extra; empty where it is not there.

    Raises:
        AirflowFailException: it is not an object. Its value is not shown.
    """
    value = extra.pop(key, None) or {}
    if not isinstance(value, Mapping):
        raise AirflowFailException(f"the connection {connection!r} has {key} in its extra, which is no JSON object")
    return dict(value)
