"""Landing folders of source files, on a disk or in an object store. The location selects the class."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lakehouse_lib.ingestion.landing.base import LISTING, Fingerprint, LandedFile, Landing, SourceFile, is_changed
from lakehouse_lib.ingestion.landing.folder import LandingFolder
from lakehouse_lib.ingestion.landing.objects import LandingObjects
from lakehouse_lib.ingestion.name_pattern import NamePattern
from lakehouse_lib.store import open_store

__all__ = ["LISTING", "Fingerprint", "LandedFile", "Landing", "SourceFile", "is_changed", "open_landing"]


def open_landing(
    location: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    pattern: str | None = None,
) -> Landing:
    """The landing folder at a location. Nothing is read.

    Args:
        location: a path, a ``file:`` URI, or a location in an object store.
        storage_options: the options of its store.
        pattern: see ``NamePattern``.

    Raises:
        InvalidArgumentError: the location, an option or the pattern is not valid.
    """
    store = open_store(location, dict(storage_options or {}))
    if store.is_remote:
        return LandingObjects(store, NamePattern(pattern))
    return LandingFolder(Path(store.root), NamePattern(pattern))
