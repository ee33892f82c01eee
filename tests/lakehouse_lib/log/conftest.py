"""Fixtures that several tests of the log share."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_lib.log.checkpoint import sidecar_reuse, write_v2
from lakehouse_lib.store import LocalStore
from tests.lakehouse_lib.log.five_versions import write_table
from tests.lakehouse_lib.log.v2_checkpoints import FULL


@pytest.fixture
def small_sidecars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write sidecars of twenty files."""
    monkeypatch.setattr(write_v2, "FULL", FULL)
    monkeypatch.setattr(sidecar_reuse, "_SMALL", FULL // 2)


@pytest.fixture
def table(tmp_path: Path) -> LocalStore:
    """The table of ``five_versions.py``."""
    return write_table(tmp_path / "t")
