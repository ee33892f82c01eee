"""Select the storage options for a location from a connection's extra JSON and from the registry (docs/stores.md).

One connection serves tables in all kinds of stores. Each store gets only the options that it has. The functions import
the library, so the plugin also loads without the library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse_lib.store.schemes import StoreKind

_ROOTS = "allowed_roots"
#: The type of the connection with the credentials of a kind of store, by the scheme of its locations.
_ACCOUNTS = {"s3": "aws"}


def account_type(location: str) -> str | None:
    """The type of the connection with the credentials for a location; None: the location needs no credentials."""
    from lakehouse_lib.store.schemes import kind_of

    kind = kind_of(location)
    return None if kind is None else _ACCOUNTS.get(kind.schemes[0])


def store_options(location: str, own: Mapping[str, Any], account: Mapping[str, str]) -> dict[str, str]:
    """The options of the store at a location.

    Options of other kinds of stores are left out. An unknown option stays, and the store raises an error with its name.
    The options ``own`` override the options ``account``, in any spelling of their names. If ``own`` has a credential,
    all credentials of ``account`` are left out.

    Args:
        own: options of a connection of type ``lakehouse``, or of a source in the registry.
        account: options that ``own`` overrides: those of the connection of type ``account_type(location)`` to which
            that connection refers, or those of the connection of the landing folder.
    """
    from lakehouse_lib.store.schemes import kind_of, kinds

    kind = kind_of(location)
    if kind is None:  # no store opens the location
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
    """The roots in stores of ``kind``. The first location of a text decides its kind; a list may have several kinds."""
    if not isinstance(value, list):
        return str(value) if _is_of(str(value).lstrip(), kind) else ""
    return kind.roots_separator.join(str(root) for root in value if _is_of(str(root), kind))


def _is_of(location: str, kind: StoreKind) -> bool:
    """Whether a store of ``kind`` opens the location; True for an unknown scheme, which the store then rejects."""
    from lakehouse_lib.store.schemes import kind_of

    owner = kind_of(location)
    return owner is None or owner is kind
