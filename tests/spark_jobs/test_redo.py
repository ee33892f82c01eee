from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import CommitProperties, DeltaTable, Transaction, write_deltalake
from lakehouse_lib.errors import IngestError
from lakehouse_lib.ingestion.batches.batch import Batch
from lakehouse_lib.ingestion.intent_log import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.store import open_store
from tests.landed_files import fingerprint
from tests.spark_jobs.loading import SCHEMA, Shop


def test_half_done_batch_is_redone_from_files_that_were_put_back(tmp_path: Path) -> None:
    """The restored file has the same content and another time, and the batch cannot be given up. No Spark is needed."""
    shop = Shop(tmp_path)
    path = shop.land("a.csv")
    source = shop.source()
    intents = IntentLog(open_store(shop.table), source.name)
    taken = fingerprint(shop.landing, "a.csv")
    intents.put(Intent(0, (taken,), source.rules()))
    intents.put(Outcome(0))
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    half_done = Load(source).history.unsettled
    assert half_done is not None
    result = Batch(half_done, source, intents).load(redo=True)
    assert result.entry is not None
    assert result.entry["files"] == ["a.csv"]
    assert shop.transaction() == 0


def test_a_batch_that_another_run_loads_during_planning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run puts its intent after this run has read the intents, and commits before it reads the table."""
    shop = Shop(tmp_path)
    shop.land("a.csv")
    source = shop.source()
    intents = IntentLog(open_store(shop.table), source.name)
    read = IntentLog.read

    def load_in_between(self: IntentLog, after: int = -1) -> Any:
        entries = read(self, after)
        if not entries[0]:
            taken = fingerprint(shop.landing, "a.csv")
            intents.put(Intent(0, (taken,), source.rules()))
            rows = pa.Table.from_pylist([], schema=SCHEMA.to_arrow())
            properties = CommitProperties(app_transactions=[Transaction(source.name, 0)])
            write_deltalake(shop.table, rows, commit_properties=properties)
        return entries

    monkeypatch.setattr(IntentLog, "read", load_in_between)
    load = Load(source)
    assert load.history.unsettled is None
    assert load.history.next_number == 1
    assert load.nothing_to_do() is not None


@pytest.mark.parametrize("name", ["sales", "sales_quarantine"])
def test_a_table_whose_transactions_expire_is_refused(tmp_path: Path, name: str) -> None:
    shop = Shop(tmp_path)
    shop.land("a.csv", "1,5,x", "oops,5,x")
    Load(shop.source()).run()
    table = DeltaTable(str(tmp_path / name))
    table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 0 seconds"})
    with pytest.raises(IngestError, match="so the record of the last batch"):
        Load(shop.source())
    table.alter.unset_table_properties(["delta.setTransactionRetentionDuration"])
    assert Load(shop.source()).run().batches == ()
    assert shop.ids() == [1]
