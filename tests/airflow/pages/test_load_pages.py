"""The page of the loads of a table."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakehouse_airflow.pages.views.loads import load_rows
from lakehouse_lib.ingestion.batches.reports import BatchCommit, BatchReport
from lakehouse_lib.ingestion.load import Load
from tests.airflow.dag_runs import api_client
from tests.spark_jobs.loading import PRICE_RULE, Shop

pytestmark = pytest.mark.usefixtures("airflow_db")
NASTY = "<b>x.csv"


@pytest.fixture
def shop(registry_file: Path) -> Shop:
    """Loads of a table ``sales`` in the registry: two batches, and a file that was rejected."""
    shop = Shop(registry_file.parent / "shop")
    source = {"name": "erp", "landing": "shop/landing"}
    body: dict[str, Any] = json.loads(registry_file.read_text())
    body["tables"] = {
        "sales": {"uri": "shop/sales", "source": source, "quarantine": "shop/sales_quarantine", "schema": "s.json"}
    }
    body |= {"subjects": {}, "report": None}
    registry_file.write_text(json.dumps({name: value for name, value in body.items() if value is not None}))
    (registry_file.parent / "s.json").write_text(json.dumps({"type": "struct", "fields": []}))
    shop.land("1.csv", "1,1.50,a", "2,x,b")
    shop.land("2.csv", "3,1.50,a", "4,-1,c")
    shop.land(NASTY, "5,1.50,a", header="wrong")
    Load(shop.source(suite={"name": "s", "expectations": [PRICE_RULE]})).run()
    return shop


def test_the_page_lists_batches_with_links_to_their_versions(shop: Shop) -> None:
    page = api_client("vic", "VIEWER").get("/lakehouse/tables/sales/loads")
    assert page.status_code == 200, page.text
    rows = re.findall(r"<tr>\s*<th scope=\"row\" class=\"number\">(\d+)</th>(.*?)</tr>", page.text, re.DOTALL)
    assert [number for number, _ in rows] == ["2", "1", "0"]
    (first,) = [text for number, text in rows if number == "0"]
    assert ">loaded<" in first or ">given up<" in first
    assert '<a href="/lakehouse/tables/sales_quarantine/versions/0">1</a>' in page.text
    assert "2 loaded, 2 rejected" in page.text
    assert "every file was rejected" in page.text
    assert NASTY not in page.text
    assert "&lt;b&gt;x.csv" in page.text
    table_page = api_client().get("/lakehouse/tables/sales").text
    assert "/lakehouse/tables/sales/loads" in table_page
    assert '<tr><td>price not negative</td><td class="number">1</td></tr>' in table_page


def test_a_table_without_a_source_has_no_loads(registry_file: Path) -> None:
    page = api_client().get("/lakehouse/tables/customer/loads")
    assert (page.status_code, "no source" in page.text) == (404, True)


def test_a_batch_links_to_the_task_that_loaded_it() -> None:
    run = {"dag_id": "lakehouse_ingest", "run_id": "r", "task_id": "ingest", "map_index": 3, "try_number": 1}
    commit = BatchCommit(7, 5_000, {"airflow": run, "operationMetrics": {"numOutputRows": "12"}})
    (row,) = load_rows([BatchReport(0, "loaded", 5, 100, ("a", "b"), started_at=2_000, commit=commit)])
    assert (row.batch.seconds, commit.rows, row.more, row.at) == (3.0, 12, 3, 5_000)
    assert row.task is not None
    assert (row.task.run_id, row.task.map_index) == ("r", 3)
