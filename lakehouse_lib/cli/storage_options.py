"""The storage options of a location. They come from a file, because every user of the machine sees command lines."""

from __future__ import annotations

from collections.abc import Mapping


def options_for(location: str, by_location: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The options of a location: of the location itself, else of the nearest folder around it; empty if there are none.

    Args:
        by_location: options by location.
    """
    from lakehouse_lib.store.schemes import canonical_location

    own = canonical_location(location)
    best, options = -1, {}
    for folder, values in by_location.items():
        root = canonical_location(folder).rstrip("/")
        if (own == root or own.startswith(f"{root}/")) and len(root) > best:
            best, options = len(root), dict(values)
    return options
