"""The pages of all tables and of a table, and the button that starts maintenance by Airflow's own API."""

import json
import re
import shutil
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable as Peer

from lakehouse_airflow.commit_info import WITHHELD
from lakehouse_airflow.operators.maintenance.maintain import LakehouseMaintainOperator
from lakehouse_airflow.operators.maintenance.plan import LakehousePlanOperator
from lakehouse_airflow.operators.maintenance.summary import LakehouseSummaryOperator
from lakehouse_airflow.pages import health_cache
from lakehouse_lib import commit_metadata, write_deltalake
from lakehouse_lib.fleet.health import Health, health
from lakehouse_lib.fleet.health.fleet_health import record_health
from lakehouse_lib.fleet.health.record import HealthRecord
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.step import Effect
from lakehouse_lib.fleet.runs import RunRecord, Status, StepRecord
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import open_store
from tests.airflow.dag_runs import api_client, let_run
from tests.airflow.pages.page_text import text_of

pytestmark = pytest.mark.usefixtures("airflow_db")
NASTY = "<script>alert(1)</script>'; DROP TABLE x; --"


@pytest.fixture(scope="module")
def ann() -> Any:
    return api_client()


@pytest.fixture
def lakehouse(registry_file: Path) -> Path:
    """``orders`` with twelve small files by delta-rs, its quarantine, and ``customer``; ``lineitem`` does not exist."""
    body = json.loads(registry_file.read_text())
    registry_file.write_text(json.dumps({**body, "records": "records"}))
    tables = registry_file.parent / "tables"
    for number in range(12):
        rows = pa.table({"o_custkey": [number, number + 40], NASTY: ["x", "y"]})
        deltalake.write_deltalake(tables / "orders", rows, mode="append")
    deltalake.write_deltalake(tables / "orders_quarantine", pa.table({"o_custkey": ["a", "b", "c"]}))
    deltalake.write_deltalake(tables / "customer", pa.table({"c_custkey": [1]}))
    return registry_file.parent


def maintain(*tables: str) -> list[dict[str, Any]]:
    """Run the first two tasks of the maintenance DAG; returns the results of ``maintain``."""
    work = LakehousePlanOperator(task_id="plan", only=list(tables)).execute({})
    return [
        LakehouseMaintainOperator(task_id="maintain", work=json.loads(json.dumps(task))).execute({}) for task in work
    ]


def row_of(html: str, table: str) -> str:
    """The text of a table's row on the page of all tables."""
    (row,) = (row for row in re.findall(r"<tr>\n.*?</tr>", html, re.DOTALL) if f">{table}</a></th>" in row)
    return text_of(row)


def names_on(html: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="[^"]+">([^<]+)</a></th>', html)


def test_all_tables_have_their_health_and_their_last_run(lakehouse: Path, ann: Any) -> None:
    maintain()
    page = ann.get("/lakehouse/tables")
    assert page.status_code == 200, page.text
    assert sorted(names_on(page.text)) == sorted(["orders", "customer", "lineitem", "orders_quarantine", "report"])
    orders = row_of(page.text, "orders")
    size = Peer(lakehouse / "tables/orders", version=11).to_pyarrow_dataset()
    assert len(size.files) == 12
    assert "−25 small files" in orders
    assert " 12 12 " in orders  # files and small files
    assert " 24 " in orders  # rows
    assert re.search(r"0 B just now \S.* z order, .*vacuum done just now just now before the last run", orders)
    assert "– – –" in row_of(page.text, "lineitem")
    assert "Tables without recorded health in the last 30 days: 2." in text_of(page.text)


def test_the_last_task_of_a_run_measures_the_tables_again(lakehouse: Path, ann: Any) -> None:
    results = maintain()
    edited = {"steps": [{**results[0]["steps"][0], "table": "/etc"}]}
    task = SimpleNamespace(xcom_pull=lambda task_ids: [*results, edited])
    LakehouseSummaryOperator(task_id="summary", maintained_by="maintain").execute({"ti": task})
    row = row_of(ann.get("/lakehouse/tables").text, "orders")
    assert re.match(r" orders 100 1 1 ", row)
    assert "before the last run" not in row


def test_a_run_with_a_failed_step_has_failed(lakehouse: Path, ann: Any) -> None:
    def step(run: str, verb: str, status: Status, moment: int) -> StepRecord:
        return StepRecord(run, "orders", verb, status, "", moment, 1, 1, Effect(), Effect(), finished_at=moment)

    now = int(time.time() * 1000)
    record = RunRecord(str(lakehouse / "records"))
    record.append([step("r", "z_order", "failed", now - 9_000), step("r", "checkpoint", "done", now - 8_000)])
    assert "z order failed" in row_of(ann.get("/lakehouse/tables").text, "orders")
    record.append([step("s", "vacuum", "done", now - 7_000)])
    assert "vacuum done" in row_of(ann.get("/lakehouse/tables").text, "orders")


def test_the_list_is_read_from_records_without_opening_a_table(lakehouse: Path, ann: Any) -> None:
    maintain()
    before = ann.get("/lakehouse/tables").text
    (lakehouse / "tables").rename(lakehouse / "elsewhere")
    after = ann.get("/lakehouse/tables")
    assert after.status_code == 200
    assert row_of(after.text, "orders") == row_of(before, "orders")


def test_a_step_that_waits_is_the_next_maintenance_with_its_gain(lakehouse: Path, ann: Any) -> None:
    effect = Effect(query_bytes=3 * 2**20, bytes_freed=5 * 2**30)
    moment = int(time.time() * 1000)
    waiting = StepRecord("r", "customer", "vacuum", "deferred", "because", moment, 1, 1, effect, effect)
    failed = StepRecord(
        "r",
        "customer",
        "optimize",
        "failed",
        "because",
        moment,
        1,
        1,
        effect,
        effect,
        None,
        None,
        moment,
        "E",
        "C",
        NASTY,
    )
    RunRecord(str(lakehouse / "records")).append([waiting, failed])
    page = ann.get("/lakehouse/tables").text
    row = row_of(page, "customer")
    assert "vacuum: deferred; a query would read 3.0 MiB less, 5.0 GiB would be freed" in row
    assert "optimize failed just now" in row
    assert NASTY not in page
    assert names_on(ann.get("/lakehouse/tables?q=FAILED").text) == ["customer"]
    assert names_on(ann.get("/lakehouse/tables?sort=gain&order=desc").text)[0] == "customer"


def test_rows_are_sorted_and_filtered(lakehouse: Path, ann: Any) -> None:
    maintain()
    by_name = names_on(ann.get("/lakehouse/tables?sort=name&order=asc").text)
    assert by_name == sorted(by_name)
    assert names_on(ann.get("/lakehouse/tables?sort=name&order=desc").text) == by_name[::-1]
    for order in ("asc", "desc"):  # unknown values are last
        files = names_on(ann.get(f"/lakehouse/tables?sort=files&order={order}").text)
        assert set(files[-2:]) == {"lineitem", "report"}
    assert names_on(ann.get("/lakehouse/tables?q=order+small").text) == ["orders"]
    assert names_on(ann.get("/lakehouse/tables?sort=__class__&order=1").text)[0] == "orders"  # the worst score
    filtered = ann.get("/lakehouse/tables", params={"q": f'"{NASTY}'})
    assert (names_on(filtered.text), NASTY in filtered.text) == ([], False)


def test_the_page_reports_missing_and_unreadable_records(lakehouse: Path, ann: Any) -> None:
    maintain("customer")
    log = lakehouse / "records/health/_delta_log"
    (log / f"{0:020d}.json").write_text("{")
    page = ann.get("/lakehouse/tables")
    assert page.status_code == 200
    assert "The records cannot be read" in page.text
    file = lakehouse / "lakehouse.json"
    body = json.loads(file.read_text())
    del body["records"]
    file.write_text(json.dumps(body))
    page = ann.get("/lakehouse/tables")
    assert (page.status_code, "key records is missing" in page.text, len(names_on(page.text))) == (200, True, 5)


def test_a_table_has_its_sizes_columns_versions_and_runs(lakehouse: Path, ann: Any) -> None:
    maintain("orders")
    uri = str(lakehouse / "tables/orders")
    task = {"dag_id": "load <b>", "run_id": "manual__1/2", "task_id": "t", "map_index": 3, "try_number": 2}
    with commit_metadata({"airflow": task, "userName": NASTY}):
        write_deltalake(uri, pa.table({"o_custkey": [1], NASTY: ["x"]}), mode="append")
    page = ann.get("/lakehouse/tables/orders")
    assert page.status_code == 200, page.text
    text, peer = text_of(page.text), Peer(uri)
    assert f"Version {peer.version()}" in text
    assert f"{len(peer.file_uris())} files" in text
    assert "25 rows" in text
    assert re.search(r"<desc id=\"chart-text\">2 files below 64 KiB</desc>", page.text)
    assert page.text.count("<rect ") == 10
    assert re.search(r"o_custkey long allowed clustering \d+% 1\.\d", text)
    assert "Z-ordered by o_custkey" in text
    assert re.search(r"z order done just now .*12 → 12 .*bytes wrong by \d+%, gain wrong by \d+%", text)
    assert "orders_quarantine" in page.text
    runs = "/dags/load%20%3Cb%3E/runs/manual__1%2F2"
    assert f'href="{runs}/tasks/t/mapped/3"' in page.text
    assert f'href="{runs}"' in page.text
    assert "try 2" in text
    assert NASTY in text
    assert NASTY not in page.text
    assert "/lakehouse/tables/orders/versions/3" in page.text
    assert "alert(1)" not in re.sub(r"&lt;script&gt;alert\(1\)&lt;", "", page.text)


def test_the_health_of_a_version_is_computed_once_a_minute(
    lakehouse: Path, ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[int] = []

    def count(snapshot: Snapshot, _: Policy) -> Health:
        computed.append(snapshot.version)
        return health(snapshot)

    monkeypatch.setattr(health_cache, "health_of", count)
    uri = lakehouse / "tables/customer"
    for _ in range(3):
        assert "1 rows" in text_of(ann.get("/lakehouse/tables/customer").text)
    assert computed == [0]
    deltalake.write_deltalake(uri, pa.table({"c_custkey": [2]}), mode="append")
    assert "2 rows" in text_of(ann.get("/lakehouse/tables/customer").text)
    shutil.rmtree(uri)
    for number in range(2):  # the same version of another table
        deltalake.write_deltalake(uri, pa.table({"c_custkey": [number, 3, 4]}), mode="append")
    assert "6 rows" in text_of(ann.get("/lakehouse/tables/customer").text)
    monkeypatch.setattr(health_cache, "VALID_SECONDS", 0.0)
    ann.get("/lakehouse/tables/customer")
    assert len(computed) == 4


def test_the_page_shows_the_number_of_rows_in_the_quarantine(lakehouse: Path, ann: Any) -> None:
    names = ("orders", "orders_quarantine")
    tables = [MaintainedTable(name, open_store(lakehouse / "tables" / name)) for name in names]
    record_health(tables, HealthRecord(str(lakehouse / "records")))
    text = text_of(ann.get("/lakehouse/tables/orders").text)
    assert "Rejected rows are in orders_quarantine : 3 rows, measured just now" in text
    assert ann.get("/lakehouse/tables/orders_quarantine").status_code == 200


def test_conditions_of_a_subjects_table_are_withheld(lakehouse: Path, ann: Any) -> None:
    Peer(lakehouse / "tables/orders").delete("o_custkey = 47")
    version = Peer(lakehouse / "tables/orders").version()
    for path in ("", f"/versions/{version}"):
        page = ann.get(f"/lakehouse/tables/orders{path}").text
        assert "DELETE" in page
        assert "o_custkey = 47" not in page
    assert WITHHELD in page


def test_the_button_of_the_page_starts_a_run_through_the_api_of_airflow(lakehouse: Path, ann: Any) -> None:
    let_run("lakehouse_maintenance")
    question = ann.get("/lakehouse/tables/orders/maintenance")
    assert question.status_code == 200, question.text
    text = text_of(question.text)
    assert "Run maintenance of orders?" in text
    assert re.search(r"z order .* 12 ", text)
    assert Peer(lakehouse / "tables/orders").version() == 11
    api, body = (unescape(re.search(rf'data-{name}="([^"]*)"', question.text)[1]) for name in ("api", "body"))  # type: ignore[index]
    assert api == "/api/v2/dags/lakehouse_maintenance/dagRuns"
    answer = ann.post(api, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["conf"]["tables"] == ["orders"]
    assert answer.json()["triggering_user_name"] == "ann"
    again = text_of(ann.get("/lakehouse/tables/orders/maintenance").text)
    assert "Runs that are queued or running: 1." in again


@pytest.mark.slow
def test_five_hundred_tables_are_listed_in_the_time_of_a_thousand_reads_of_their_json(
    registry_file: Path, ann: Any
) -> None:
    body = {"records": "records", "tables": {f"t{number:03}": {"uri": f"tables/t{number:03}"} for number in range(500)}}
    registry_file.write_text(json.dumps(body))
    write_deltalake(str(registry_file.parent / "sample"), pa.table({"id": [1, 2]}))
    metrics = health(load_snapshot(open_store(registry_file.parent / "sample")))
    record = HealthRecord(str(registry_file.parent / "records"))
    now = int(time.time() * 1000)
    for day in range(20):
        record.append([(name, metrics) for name in body["tables"]], now=now - day * 86_400_000)
    effect = Effect(query_bytes=1)
    RunRecord(str(registry_file.parent / "records")).append(
        [
            StepRecord("r", name, verb, "done", "", now, 1, 1, effect, effect, effect, 1, now)
            for name in body["tables"]
            for verb in ("optimize", "vacuum", "checkpoint")
        ]
    )

    def seconds(work: Callable[[], object]) -> float:
        """The processor time of the quickest of three calls; other threads of this process work sometimes, too."""
        times = []
        for _ in range(3):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        return min(times)

    assert len(names_on(ann.get("/lakehouse/tables").text)) == 500
    listing = seconds(lambda: ann.get("/lakehouse/tables"))
    assert listing < 5 * seconds(lambda: [json.loads(json.dumps([body] * 2)) for _ in range(100)])
