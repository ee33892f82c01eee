"""The source of the tests of loads."""

from pathlib import Path

import pytest

from tests.spark_jobs.loading import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)
