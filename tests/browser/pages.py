"""``make test-browser``: the pages in Chromium, as people use them, in a real Airflow."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from demo import airflow_process
from demo.home import Home
from demo.rest import AirflowApi, Run
from demo.users import ADMIN, OFFICER, REQUESTER
from tests.browser.lakehouse import CUSTOMER
from tests.browser.visitor import Visitor

pytestmark = pytest.mark.timeout(900)
Visit = Callable[..., Visitor]


def wait_until_ended(airflow: AirflowApi, dag_id: str, run_id: str) -> Run:
    while not (run := airflow.run(dag_id, run_id)).finished:
        time.sleep(1)
    return run


@pytest.fixture(scope="session")
def loaded(airflow: AirflowApi) -> str:
    """The run that has loaded the files in the landing folder. All tables have been looked at since."""
    for dag_id in ("lakehouse_ingest", "lakehouse_maintenance", "lakehouse_erasure_customer"):
        while dag_id not in airflow.dag_ids():
            time.sleep(1)
        airflow.unpause(dag_id)
    run = wait_until_ended(airflow, "lakehouse_ingest", airflow.trigger("lakehouse_ingest").run_id)
    assert run.state == "success"
    look = airflow.trigger("lakehouse_maintenance", {"plan_only": True})
    assert wait_until_ended(airflow, "lakehouse_maintenance", look.run_id).state == "success"
    return run.run_id


def test_the_button_starts_maintenance_that_commits_a_version(
    home: Home, airflow: AirflowApi, loaded: str, visit: Visit
) -> None:
    before = DeltaTable(home.tables / "customer").version()
    ann = visit(ADMIN)
    ann.open("/lakehouse/tables")
    assert ann.texts("tbody th") == ["customer", "orders", "orders_quarantine"]

    ann.page.get_by_role("link", name="customer", exact=True).click()
    assert ann.texts("h1") == ["customer"]
    ann.page.get_by_role("link", name="Run maintenance").click()
    assert ann.texts("h1") == ["Run maintenance of customer?"]
    ann.check()
    ann.picture("airflow-maintenance")
    ann.page.get_by_role("button", name="Run maintenance").click()
    link = ann.page.locator("#status a")
    link.wait_for()
    run = wait_until_ended(airflow, "lakehouse_maintenance", link.inner_text().removeprefix("The run "))
    assert run.state == "success"

    ann.page.get_by_role("link", name="Back to the table").click()
    after = DeltaTable(home.tables / "customer").version()
    assert after > before
    mark = ann.page.get_by_role("link", name=f"Version {after}, ")
    assert mark.count() == 1
    ann.check()
    ann.picture("airflow-table")
    ann.page.get_by_role("link", name=str(after), exact=True).first.click()
    assert ann.texts("h1") == [f"customer, version {after}"]
    ann.check()
    ann.page.get_by_role("link", name=run.run_id).click()
    ann.page.wait_for_url(f"{ann.url}/dags/lakehouse_maintenance/runs/**")


def test_tables_are_sorted_and_filtered(loaded: str, visit: Visit) -> None:
    ann = visit(REQUESTER)
    ann.open("/lakehouse/tables")
    ann.page.get_by_role("link", name="Table", exact=True).click()
    assert ann.texts("tbody th") == ["orders_quarantine", "orders", "customer"]
    assert ann.page.locator("th[aria-sort=descending]").inner_text().startswith("Table")
    ann.page.get_by_role("link", name="Table ▼").click()
    assert ann.texts("tbody th") == ["customer", "orders", "orders_quarantine"]
    ann.check()
    ann.picture("airflow-pages")
    ann.page.get_by_role("searchbox").fill("quarantine")
    ann.page.get_by_role("button", name="Filter").click()
    assert ann.texts("tbody th") == ["orders_quarantine"]
    ann.page.get_by_role("link", name="Show all").click()
    assert len(ann.texts("tbody th")) == 3


def test_the_page_of_loads_shows_rows_rejected_rows_and_runs(loaded: str, visit: Visit) -> None:
    ann = visit(REQUESTER)
    ann.open("/lakehouse/tables/orders")
    ann.page.get_by_role("link", name="loads of orders").click()
    assert ann.texts("h1") == ["Loads of orders"]
    assert "1,960 loaded, 40 rejected" in ann.page.locator("table.pairs").inner_text()
    assert ann.texts("tbody th.number") == ["1", "0"]
    ann.check()
    ann.picture("airflow-loads")
    ann.page.get_by_role("row", name="2026-11-01.csv").get_by_role("link", name="20", exact=True).click()
    assert ann.texts("h1") == ["orders_quarantine, version 0"]
    ann.page.go_back()
    ann.page.get_by_role("link", name=loaded).first.click()
    ann.page.wait_for_url(f"{ann.url}/dags/lakehouse_ingest/runs/**")


def test_a_large_table_is_measured_after_its_page_appears(loaded: str, visit: Visit) -> None:
    ann = visit(REQUESTER)
    ann.open("/lakehouse/tables/customer")

    def without_measurement(route: Any) -> None:
        """Answer with the page as it is if the table is large."""
        answer = route.fetch()
        notice = '<p class="notice" data-measure="/lakehouse/tables/customer?measure=true">It has many files.</p>'
        route.fulfill(
            response=answer, body=re.sub("<main>.*</main>", f"<main>{notice}</main>", answer.text(), flags=re.S)
        )

    ann.page.route("**/lakehouse/tables/customer", without_measurement)
    ann.open("/lakehouse/tables/customer")
    ann.page.get_by_role("heading", name="Sizes of the files").wait_for()
    assert ann.texts("[data-measure]") == []
    ann.check()


def test_airflow_shows_the_pages_in_a_frame(loaded: str, visit: Visit) -> None:
    ann = visit(ADMIN)
    ann.open("/lakehouse/tables")
    ann.page.goto(f"{ann.url}/plugin/lakehouse")
    frame = ann.page.frame_locator("iframe")
    frame.get_by_role("link", name="customer", exact=True).click()
    frame.get_by_role("heading", name="customer", exact=True).wait_for()
    ann.picture("airflow-table-in-frame", "dark")
    frame.get_by_role("link", name="lakehouse_maintenance").first.click()
    ann.page.wait_for_url(f"{ann.url}/dags/lakehouse_maintenance/**")


def test_an_erasure_is_approved_and_has_a_record(home: Home, airflow: AirflowApi, loaded: str, visit: Visit) -> None:
    requester = airflow_process.api(home, airflow_process.running(home), REQUESTER)
    run = requester.trigger("lakehouse_erasure_customer", {"customer_id": CUSTOMER})
    while not airflow.questions("lakehouse_erasure_customer", run.run_id):
        time.sleep(1)
    ann = visit(OFFICER)
    ann.open("/lakehouse/tables")
    ann.page.get_by_role("link", name="Erasures").click()
    row = ann.page.get_by_role("row", name=run.run_id)
    assert "waits for an answer" in row.inner_text()
    ann.check()
    row.get_by_role("rowheader").get_by_role("link").click()
    assert "waits for an answer" in ann.page.locator(".bar").inner_text()
    ann.check()
    erasure = ann.page.url.removeprefix(ann.url)
    ann.page.get_by_role("link", name="Answer in Airflow").click()
    ann.page.get_by_text("These rows will be deleted for good").wait_for()
    ann.picture("airflow-question")
    ann.page.get_by_role("button", name="Approve").click()
    assert wait_until_ended(airflow, "lakehouse_erasure_customer", run.run_id).state == "success"

    ann.open(erasure)
    ann.complaints.clear()  # those of Airflow's own page
    assert ann.texts("h2")[0] == "Record"
    rows = ann.page.get_by_role("row")
    assert rows.filter(has_text="customer").filter(has_text="1 → 0").count() == 1
    assert rows.filter(has_text="orders").filter(has_text="6 → 0").count() == 1
    assert str(CUSTOMER) not in ann.page.content()
    ann.check()
    ann.picture("airflow-erasure")
    ann.open("/lakehouse/erasures")
    assert "erased" in ann.page.get_by_role("row", name=run.run_id).inner_text()
    ann.page.get_by_role("link", name=run.run_id).click()
    ann.page.wait_for_url(f"{ann.url}/dags/lakehouse_erasure_customer/runs/**")
