"""The contract of stores on a real S3 server."""

import pytest

from lakehouse_lib.store import open_store
from tests.store_contract import StoreContract


class TestRealServer(StoreContract):
    rounds = 30

    @pytest.fixture
    def store(self, server, location):
        return open_store(location, server.options)
