"""The latest version, for sensors that ask every few seconds.

It comes from a listing and the checkpoint hint. No commit is read, and pyarrow is not imported.
"""

from __future__ import annotations

from lakehouse_lib.log import file_names
from lakehouse_lib.log.last_checkpoint_hint import read_hint
from lakehouse_lib.store import ObjectStore

#: Kinds of objects that prove that a version exists. A compaction does not, nor one part of a multi-part checkpoint.
_PROOFS = ("commit", "classic", "uuid-json", "uuid-parquet")


def latest_version(store: ObjectStore, start: int | None = None) -> int | None:
    """The latest version of the table, or None if the log has no version.

    Args:
        start: a version that the table had before. The listing starts there, and the checkpoint hint is not read.
    """
    start = read_hint(store) or 0 if start is None else start
    latest = _newest(store, start)
    return latest if latest is not None or not start else _newest(store, 0)


def _newest(store: ObjectStore, start: int) -> int | None:
    versions = (
        name.version
        for meta in store.list_from(file_names.LOG, file_names.first_name(start))
        if (name := file_names.parse(meta.path)) is not None and name.kind in _PROOFS
    )
    return max(versions, default=None)
