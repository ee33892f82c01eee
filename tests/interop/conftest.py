"""The tables that examples of several files read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.example_tables import make_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("examples")
    make_tables(root)
    return root
