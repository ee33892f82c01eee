"""Errors say what is wrong in a few lines, whatever they quote."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.errors import DeltaError, StoreError
from lakehouse_lib.store import LocalStore
from tests.checkpoint_files import put_commit
from tests.log_tables import METADATA, PROTOCOL, add


def test_a_message_that_quotes_a_page_keeps_its_ends() -> None:
    error = StoreError(f"the file {'x' * 100_000} is missing", table="/t", version=3, hint="Restore it")
    assert len(str(error)) < 5_000
    assert str(error).startswith("[DELTA_STORE_ERROR] the file xxx")
    assert str(error).endswith("is missing (table /t, version 3). Restore it")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_name_of_ten_thousand_letters_fills_no_screens(tmp_path: Path) -> None:
    put_commit(LocalStore(str(tmp_path)), 0, [{"protocol": PROTOCOL}, {"metaData": METADATA}, add("x" * 10_000)])
    with pytest.raises(DeltaError) as refused:
        DeltaTable(tmp_path).to_pyarrow_table()
    assert len(str(refused.value)) < 5_000


def test_a_time_of_no_year_leaves_the_table_to_be_described(tmp_path: Path) -> None:
    metadata = METADATA | {"createdTime": 10**16}
    put_commit(LocalStore(str(tmp_path)), 0, [{"protocol": PROTOCOL}, {"metaData": metadata}])
    assert DeltaTable(tmp_path).detail()["createdAt"] is None
    assert DeltaTable(tmp_path).metadata().created_time == 10**16
