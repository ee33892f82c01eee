from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse_lib.errors import IngestError, InvalidArgumentError
from lakehouse_lib.ingestion.intent_log import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint
from lakehouse_lib.store import open_store
from tests.fault_store import FaultStore

FILE = Fingerprint("ä b.csv", 3, 1_700_000_000_000, "00ff")


def test_entries_come_back_as_they_were_put(tmp_path: Path) -> None:
    log = IntentLog(open_store(tmp_path), "erp")
    intents = {number: Intent(number, (FILE,), {"suite": None, "format": {"kind": "csv"}}) for number in (0, 1)}
    outcome = Outcome(1, {"ä b.csv": "refused"}, "every file was refused")
    assert all(log.put(entry) for entry in (*intents.values(), outcome))
    assert log.read() == (intents, {1: outcome})
    assert (tmp_path / "_ingest/erp/00000000000000000001.json").exists()


def test_second_intent_of_a_number_loses(tmp_path: Path) -> None:
    log = IntentLog(open_store(tmp_path), "erp")
    assert log.put(Intent(0, (FILE,), {"winner": True}))
    assert not log.put(Intent(0, (), {"winner": False}))
    assert log.read()[0][0].rules == {"winner": True}


def test_a_put_with_a_lost_answer_is_recognized_by_its_run(tmp_path: Path) -> None:
    def repeated(method: Callable[..., bool], *arguments: Any) -> bool:
        method(*arguments)
        return method(*arguments)

    log = IntentLog(FaultStore(tmp_path, instead={"put_if_absent": repeated}), "erp")
    assert log.put(Intent(0, (FILE,), {}, "run a"))
    assert not log.put(Intent(0, (FILE,), {}, "run b"))  # the same files and rules
    assert log.read()[0][0].run == "run a"


def test_sources_do_not_see_each_other(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    IntentLog(store, "erp").put(Intent(0, (FILE,), {}))
    assert IntentLog(store, "crm").read() == ({}, {})


@pytest.mark.parametrize("content", ["{", "[]", '{"batch": 0}', '{"batch": 0, "files": [{}], "rules": {}}'])
def test_a_truncated_entry_is_named(tmp_path: Path, content: str) -> None:
    store = open_store(tmp_path)
    store.put_if_absent("_ingest/erp/00000000000000000000.json", content.encode())
    with pytest.raises(IngestError, match=r"00000000000000000000\.json is not a valid entry"):
        IntentLog(store, "erp").read()


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "x" * 129])
def test_source_names_stay_inside_their_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"source is {name!r}") as refused:
        IntentLog(open_store(tmp_path), name)
    assert refused.value.code == "DELTA_INVALID_SOURCE"


def test_staged_rows_of_settled_batches_are_leftovers(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    log = IntentLog(store, "erp")
    for number in (3, 4):
        store.put(f"{log.staging(number, 'run')}0-rows.parquet", b"x")
    assert log.staged({3}) == [f"{log.staging(3, 'run')}0-rows.parquet"]
