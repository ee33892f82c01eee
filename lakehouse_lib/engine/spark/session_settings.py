"""Temporary settings of a Spark session."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

#: Only one thread at a time may change settings. Blocks of one thread may be nested.
_lock = threading.RLock()


@contextmanager
def session_settings(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for the block, and restore the old values at its end."""
    with _lock:
        before: Mapping[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, previous in before.items():
                if previous is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, previous)
