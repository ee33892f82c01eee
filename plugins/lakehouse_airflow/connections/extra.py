"""Read the extra JSON of a connection; malformed JSON is an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakehouse_airflow.errors import InvalidConnectionError

if TYPE_CHECKING:
    from airflow.sdk import Connection


def extra_of(connection: Connection) -> dict[str, Any]:
    """The connection's extra as a dict, without null values.

    Airflow itself reads malformed JSON as an empty extra. The table would then be opened without the options.

    Raises:
        AirflowFailException: the extra is not a JSON object. The message does not show the extra, which may have
            secrets.
    """
    if not (connection.extra or "").strip():
        return {}
    try:
        is_object = isinstance(json.loads(connection.extra), dict)
    except ValueError:
        is_object = False
    if not is_object:
        raise InvalidConnectionError(
            f"the extra of the connection {connection.conn_id!r} is not a JSON object; expected "
            '{"key": "value"}, or nothing'
        )
    # Airflow's property masks the secrets in the extra.
    return {key: value for key, value in connection.extra_dejson.items() if value is not None}


def pop_object(extra: dict[str, Any], key: str, connection: str) -> dict[str, Any]:
    """Remove a key from the extra and return its value, a JSON object; empty if the key is missing.

    Raises:
        AirflowFailException: the value is not an object. The message does not show the value.
    """
    value = extra.pop(key, None) or {}
    if not isinstance(value, Mapping):
        raise InvalidConnectionError(
            f"the connection {connection!r} has {key} in its extra with a value that is not a JSON object"
        )
    return dict(value)
