"""What a connection's extra JSON says, as options of a table's store (docs/stores.md).

One connection serves tables in every kind of store, so each gets what its store takes. The library is imported when a
table is opened: the plugin loads where the library is not on the path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse_lib.store.schemes import StoreKind

_ROOTS = "allowed_roots"
#: The type of the connection that has the credentials of a kind of store, by the scheme of its locations.
_ACCOUNTS = {"s3": "aws"}


def account_type(location: str) -> str | None:
    """The type of the connection that has credentials for a location; None: its store takes none."""
    from lakehouse_lib.store.schemes import kind_of

    kind = kind_of(location)
    return None if kind is None else _ACCOUNTS.get(kind.schemes[0])


def store_options(location: str, own: Mapping[str, Any], account: Mapping[str, str]) -> dict[str, str]:
    """The options of the store at a location.

    What only other kinds of stores take is left out. An option that no store takes stays: the store refuses it by its
    name. Own options win over the account's, however the two spell them; credentials win together.

    Args:
        own: of a connection of type ``lakehouse``.
        account: of the connection of type ``account_type(location)`` that it refers to.
    """
    from lakehouse_lib.store.schemes import kind_of, kinds

    kind = kind_of(location)
    if kind is None:  # no store opens it
        return {}
    texts = {}
    for name, value in own.items():
        meanings = {store_kind.option_of(name) for store_kind in kinds()}
        if _ROOTS in meanings:
            if roots := _roots(value, kind):
                texts[_ROOTS] = roots
        elif kind.option_of(name) is not None or meanings == {None}:
            texts[name] = str(value)
    options = {kind.option_of(name) for name in own}
    if options & kind.credentials:
        options |= kind.credentials
    return {**{name: value for name, value in account.items() if kind.option_of(name) not in options}, **texts}


def _roots(value: Any, kind: StoreKind) -> str:
    """Of a list what tables of that kind may refer to; a text is of one kind, that of its first location."""
    if not isinstance(value, list):
        return str(value) if _is_of(str(value).lstrip(), kind) else ""
    return kind.roots_separator.join(str(root) for root in value if _is_of(str(root), kind))


def _is_of(location: str, kind: StoreKind) -> bool:
    """Whether a store of that kind opens it; one that no store opens is for every kind to refuse."""
    from lakehouse_lib.store.schemes import kind_of

    owner = kind_of(location)
    return owner is None or owner is kind
