"""The kinds of stores, by the schemes of their locations.

A kind of store is a folder of this package, and its ``__init__`` registers the kind. The other modules of the folder,
and the packages that they need, are imported when a location of this kind is opened.
"""

from __future__ import annotations

import importlib
import pkgutil
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store.base import ObjectStore
from lakehouse_lib.store.uris import location_text, parse, scheme_of, scheme_prefix


@dataclass(frozen=True)
class StoreKind:
    """The properties of a kind of store that are known before a location is opened.

    Attributes:
        schemes: the schemes of its locations, in lower case; ``ObjectStore.root`` begins with the first scheme. A path
            without a scheme has the scheme ``file``.
        opener: returns the store of a location, with its storage options. It makes no request.
        option_of: the storage option for a name that a user gave; None: the store has no such option.
        credentials: the storage options that are credentials. They belong together, and are secret.
        roots_separator: the separator between two locations in the storage option ``allowed_roots``.
    """

    schemes: tuple[str, ...]
    opener: Callable[[str, Mapping[str, str]], ObjectStore]
    option_of: Callable[[str], str | None]
    credentials: frozenset[str] = frozenset()
    roots_separator: str = " "


_by_scheme: dict[str, StoreKind] = {}


def register(kind: StoreKind) -> None:
    """Register a kind of store, so that ``open_store`` opens locations with its schemes."""
    _by_scheme.update(dict.fromkeys(kind.schemes, kind))


def kinds() -> list[StoreKind]:
    """All registered kinds, without duplicates."""
    _import_folders()
    return list({id(kind): kind for kind in _by_scheme.values()}.values())


def kind_of(location: str) -> StoreKind | None:
    """The kind of store that opens a location; None: no store has its scheme.

    Raises:
        InvalidArgumentError: the location is not a valid URI.
    """
    scheme = scheme_of(location) or "file"
    if scheme not in _by_scheme:
        _import_folders()
    return _by_scheme.get(scheme)


def with_allowed_root(location: str, storage_options: Mapping[str, str] | None, root: str) -> dict[str, str]:
    """The storage options of a location with another store's ``root`` among its ``allowed_roots``.

    If ``root`` is in another kind of store, to which a location cannot refer, the options are unchanged.

    Raises:
        InvalidArgumentError: ``root`` is a path with the separator of ``allowed_roots``.
    """
    options = dict(storage_options or {})
    kind = kind_of(location)
    if kind is None or kind_of(root) is not kind:
        return options
    separator = kind.roots_separator
    allowed_root = quote(root, safe="/:") if scheme_prefix(root) else root  # an entry with a scheme is parsed as a URI
    if separator in allowed_root:
        raise InvalidArgumentError(
            f"the folder {location_text(root)} has {separator!r} in its name, which separates the folders of the"
            " storage option allowed_roots; expected a folder without it",
            table=location,
            hint="Clone the table with its data files, or move the source",
        )
    options["allowed_roots"] = separator.join([*filter(None, [options.get("allowed_roots")]), allowed_root])
    return options


@cache
def _import_folders() -> None:
    package = importlib.import_module(__name__.rpartition(".")[0])
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg:
            importlib.import_module(f"{package.__name__}.{module.name}")


def canonical_location(location: str) -> str:
    """The canonical spelling of a location. Two locations are the same if their canonical spellings are equal.

    Percent-encoding is decoded, so use the result for comparisons only, and never open it.
    """
    if "://" not in location:
        return _canonical_path(location)
    try:
        scheme, host, path = parse(location)
    except InvalidArgumentError:  # no store opens it
        return location
    if scheme == "file":
        return _canonical_path(path)
    kind = kind_of(location)
    return f"{kind.schemes[0] if kind else scheme}://{host}/{path.strip('/')}".rstrip("/")


def _canonical_path(path: str) -> str:
    # POSIX lets a system give two leading slashes a meaning, and normpath keeps them. Linux gives them none.
    return posixpath.normpath(f"/{path.lstrip('/')}" if path.startswith("/") else path)
