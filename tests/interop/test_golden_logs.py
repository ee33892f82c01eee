"""Tables that Spark wrote: at every version our snapshot has the same files as delta-rs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.log.segment import oldest_version
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.peers import files_delta_rs

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
NAMES = sorted(folder.name for folder in GOLDEN.iterdir())


def test_golden_tables_exist() -> None:
    assert len(NAMES) == 19


@pytest.mark.parametrize("name", NAMES)
def test_files_at_every_version_are_those_of_delta_rs(name: str) -> None:
    root = GOLDEN / name / "delta"
    store = open_store(root)
    latest = load_snapshot(store)
    oldest = oldest_version(store)
    assert oldest is not None
    for version in range(oldest, latest.version + 1):
        snapshot = load_snapshot(store, version)
        our_paths = {root / path for path in file_paths.decode_all(snapshot.files["path"], store).to_pylist()}
        assert our_paths == files_delta_rs(root, version), version
    if oldest:
        with pytest.raises(VersionNotFoundError, match=f"{oldest - 1}"):
            load_snapshot(store, oldest - 1)
