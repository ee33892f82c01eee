"""Fixtures of the tests of V2 checkpoints."""

from __future__ import annotations

import pytest

from lakehouse_lib.log.checkpoint import sidecar_reuse, write_v2
from tests.lakehouse_lib.log.v2_checkpoints import FULL


@pytest.fixture
def small_sidecars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write sidecars of twenty files."""
    monkeypatch.setattr(write_v2, "FULL", FULL)
    monkeypatch.setattr(sidecar_reuse, "_SMALL", FULL // 2)
