"""Fixtures of the tests of Z-order."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_lib.engine.base import Engine
from tests.lakehouse_lib.operations.optimize.z_order.arrival_table import ENGINES, build, engine_of
from tests.table_copies import CopyOf


@pytest.fixture(params=ENGINES)
def exchange_engine(request: pytest.FixtureRequest) -> Engine:
    """Both engines; Spark's with both ways of moving pieces from scatter to gather."""
    return engine_of(request)


@pytest.fixture
def table(tmp_path: Path, copy_of: CopyOf) -> str:
    """A table of 40,000 rows in 20 files, in the order of arrival."""
    return str(copy_of(build, tmp_path / "table"))
