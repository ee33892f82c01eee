"""Fixtures: an S3 server, and a new location in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.s3_server import S3Server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3_session() -> Iterator[S3Server]:
    from tests.s3_server import serving  # most tests need no moto, whose import takes long

    with serving("bucket", "other-bucket") as server:
        yield server


@pytest.fixture
def s3_server(s3_session: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server without counted requests, and no credentials except those in the options."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    s3_session.requests.clear()
    return s3_session


@pytest.fixture
def location() -> str:
    """A location for one test."""
    return f"s3://bucket/tests/table-{next(_numbers)}"
