"""Fixtures of the tests of the S3 store."""

from __future__ import annotations

import pytest

from lakehouse_lib.store import ObjectStore, open_store
from lakehouse_lib.store.s3 import conditional_puts
from tests.s3_server import S3Server


@pytest.fixture
def no_bucket_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget which buckets are known to check the condition of a put."""
    monkeypatch.setattr(conditional_puts, "_probed_buckets", set())


@pytest.fixture
def store(s3_server: S3Server, location: str) -> ObjectStore:
    return open_store(location, s3_server.options)
