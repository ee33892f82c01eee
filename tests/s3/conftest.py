"""A real S3 server (versitygw over a folder) on 127.0.0.1, and locations of tables in it. For ``make test-s3`` only."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.s3.server import Versity, running

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versity]:
    with running(tmp_path_factory.mktemp("versitygw")) as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def _no_credentials_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")


@pytest.fixture
def location() -> str:
    return f"s3://bucket/tests/table-{next(_numbers)}"
