"""The contract of stores for the local store and S3 (moto's server; ``make test-s3`` uses a real server)."""

import pytest

from lakehouse_lib.store import LocalStore, open_store
from tests.store_contract import StoreContract


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return LocalStore(str(tmp_path / "table"))


class TestS3Store(StoreContract):
    rounds = 4

    @pytest.fixture
    def store(self, s3_server, location):
        return open_store(location, s3_server.options)


class TestS3SingleWriter(StoreContract):
    rounds = 2

    @pytest.fixture
    def store(self, s3_server, location):
        return open_store(location, {**s3_server.options, "single_writer": "true"})
