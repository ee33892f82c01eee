"""Open the registry's ledger with the connection that holds its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_airflow.errors import InvalidConnectionError, RegistryValueError
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_lib.fleet.registry import Registry

if TYPE_CHECKING:
    from lakehouse_lib.ledger import Ledger

#: The id of a connection of type ``lakehouse``. Its password is the key, and its extra has the options of the ledger's
#: store.
LEDGER_CONNECTION = "lakehouse_ledger"


def open_ledger(registry: Registry) -> Ledger:
    """The registry's ledger. The key is in no XCom, log or rendered field.

    Raises:
        AirflowFailException: the registry has no ledger, the connection is missing or of another type, or its password
            is too short for a key.
    """
    from lakehouse_lib.ledger import SHORTEST_KEY, Ledger
    from lakehouse_lib.store import open_store

    if registry.ledger is None:
        raise RegistryValueError('the registry has no ledger; expected "ledger": LOCATION beside "tables"')
    hook = LakehouseHook(LEDGER_CONNECTION)
    try:
        connection = hook.get_conn()
    except InvalidConnectionError:
        connection = None
    if connection is None or connection.conn_type != hook.conn_type:
        reason = "is missing" if connection is None else f"is of type {connection.conn_type!r}"
        raise InvalidConnectionError(
            f"the connection {LEDGER_CONNECTION!r} {reason}; expected one of type {hook.conn_type!r} whose password is "
            f"the ledger's key, at least {SHORTEST_KEY} characters"
        )
    key = connection.password or ""
    if len(key) < SHORTEST_KEY:
        raise InvalidConnectionError(
            f"the password of the connection {LEDGER_CONNECTION!r} has {len(key)} characters; expected at least "
            f"{SHORTEST_KEY}, for example from: openssl rand -hex 32"
        )
    return Ledger(open_store(registry.ledger, hook.storage_options(registry.ledger)), key)
