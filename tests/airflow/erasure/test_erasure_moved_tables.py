"""A table of an erasure that is replaced by another one after its rows are deleted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException
from deltalake import write_deltalake

from lakehouse_lib import DeltaTable
from tests.airflow.erasure_runs import Run, ledger


@pytest.mark.parametrize("is_purged", [False, True])
def test_a_table_that_another_table_replaces_has_no_record(tables: Path, *, is_purged: bool) -> None:
    run = Run()
    run.locate()
    run.delete()
    if is_purged:
        run.purge()
    (tables / "orders").rename(tables.parent / "aside")
    for _ in range(3):
        write_deltalake(tables / "orders", pa.table({"o_orderkey": [9], "o_custkey": [9]}), mode="append")
    for task in (run.purge, run.report):
        with pytest.raises(AirflowFailException, match=rf"request {run.request} was planned \(orders\)"):
            task()
    assert ledger().find(run.request, "record") is None

    (tables / "orders").rename(tables.parent / "other")
    (tables.parent / "aside").rename(tables / "orders")
    run.finish()
    assert ledger().find(run.request, "record") is not None


def test_a_table_that_is_replaced_in_its_own_log_is_finished(tables: Path) -> None:
    run = Run()
    run.locate()
    run.delete()
    before = DeltaTable(tables / "orders")
    log = tables / "orders" / "_delta_log"
    first = next(line for line in (log / f"{0:020}.json").read_text().splitlines() if line.startswith('{"metaData"'))
    replaced = first.replace(before.detail()["id"], "11111111-2222-3333-4444-555555555555")
    (log / f"{before.version() + 1:020}.json").write_text(replaced + "\n")
    run.purge()
    run.report()
    assert ledger().find(run.request, "record") is not None
