"""Write the manifests of a table, for programs that read Parquet and not the Delta log."""

from __future__ import annotations

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.operations.upkeep.vacuum import newest
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.symlink_manifests import write_manifests

_MODE = "symlink_format_manifest"


def generate(snapshot: Snapshot, mode: str = _MODE) -> OperationResult:
    """Write the manifests of the latest version (docs/converting.md); nothing is committed.

    Args:
        mode: only "symlink_format_manifest".

    Raises:
        InvalidArgumentError: the mode has another value.
        UnsupportedFeatureError: the table has deletion vectors or column mapping; nothing is written.
    """
    if mode != _MODE:
        raise InvalidArgumentError(
            f"mode is {excerpt(mode)}; expected {_MODE}", table=snapshot.store.root, hint="Leave mode out"
        )
    latest = newest(snapshot)
    write_manifests(latest)
    return OperationResult(latest.store.root, latest.version, None)
