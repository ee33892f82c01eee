"""The page of a table version: for users who may see assets, only for registered tables, and safe to open."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from deltalake import DeltaTable as Peer

from lakehouse_airflow.commit_info import WITHHELD
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.health import LakehouseHealthOperator
from lakehouse_airflow.operators.history import LakehouseHistoryOperator
from lakehouse_lib import write_deltalake as write
from tests.airflow.dag_runs import api_client
from tests.s3_server import S3Server, serving

pytestmark = pytest.mark.usefixtures("airflow_db")
SECRET = "hunter2/the+secret=of+the+pages"
NASTY = "<script>alert(1)</script>"


@pytest.fixture
def orders(registry_file: Path) -> Path:
    """Three versions of the table ``orders``, with HTML in a commit's metadata and in a column name."""
    table = registry_file.parent / "tables" / "orders"
    for number in range(3):
        write_deltalake(
            table,
            pa.table({"o_orderkey": [number], NASTY: ["x"]}),
            mode="append",
            commit_properties=CommitProperties(custom_metadata={"note": NASTY}),
        )
    return table


@pytest.fixture(scope="module")
def ann() -> Any:
    return api_client()


@pytest.fixture(scope="module")
def anonymous_client() -> Any:
    return api_client(anonymous=True)


def test_the_page_shows_commit_files_and_schema(orders: Path, ann: Any) -> None:
    page = ann.get("/lakehouse/tables/orders/versions/1")
    assert page.status_code == 200, page.text
    assert "<h1>orders, version 1</h1>" in page.text
    assert '<tr><th scope="row">Files</th><td>2</td></tr>' in page.text
    assert '<tr><th scope="row">o_orderkey</th><td>long</td><td>allowed</td></tr>' in page.text
    assert "WRITE" in page.text


def test_the_page_has_readable_times_and_sizes_and_links_to_both_neighbours(orders: Path, ann: Any) -> None:
    page = ann.get("/lakehouse/tables/orders/versions/1").text
    assert f"{datetime.now(UTC):%Y-%m-%d %H:}" in page
    assert "just now" in page
    assert re.search(r"Size</th><td>\d\.\d KiB", page)
    assert "{&#39;" not in page  # no dictionary of Python
    assert re.search(r">operationParameters\.mode</th><td>Append<", page)
    assert not re.search(r"\b1[0-9]{12}\b", page)  # no ms since the epoch
    links = re.findall(r'rel="(\w+)" href="/lakehouse/tables/orders/versions/(\d)"', page)
    assert links == [("prev", "0"), ("next", "2")]
    assert "This is the latest version" in ann.get("/lakehouse/tables/orders/versions/2").text


def test_values_of_other_writers_are_escaped(orders: Path, ann: Any) -> None:
    page = ann.get("/lakehouse/tables/orders/versions/1")
    assert page.status_code == 200
    assert NASTY not in page.text
    assert page.text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2
    assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.fixture(scope="module")
def viewer() -> Any:
    return api_client(role="VIEWER")


@pytest.mark.parametrize("name", ["orders", "orders_quarantine"])
def test_a_viewer_sees_no_predicate_of_a_subjects_table(registry_file: Path, viewer: Any, name: str) -> None:
    table = registry_file.parent / "tables" / name
    write_deltalake(table, pa.table({"o_custkey": [1, 90218], "n": [1, 2]}))
    Peer(table).delete("o_custkey = 90218")  # like an erasure before deletes had labels
    page = viewer.get(f"/lakehouse/tables/{name}/versions/1")
    assert page.status_code == 200, page.text
    assert "DELETE" in page.text
    assert WITHHELD in page.text
    assert "90218" not in page.text


def test_a_viewer_sees_the_predicates_of_other_tables(registry_file: Path, viewer: Any) -> None:
    body = json.loads(registry_file.read_text())
    body["tables"]["weather"] = {"uri": "tables/weather"}
    registry_file.write_text(json.dumps(body))
    table = registry_file.parent / "tables" / "weather"
    write_deltalake(table, pa.table({"day": [1, 90218]}))
    Peer(table).delete("day = 90218")
    assert "day = 90218" in viewer.get("/lakehouse/tables/weather/versions/1").text


@pytest.mark.parametrize("spelling", ["orders", "{}", "{}/", "file://{}"])
def test_a_task_leaves_no_predicate_of_a_subjects_table_in_xcom(registry_file: Path, spelling: str) -> None:
    table = registry_file.parent / "tables" / "orders"
    write_deltalake(table, pa.table({"o_custkey": [1, 90218]}))
    Peer(table).delete("o_custkey = 90218")
    commits = LakehouseHistoryOperator(task_id="t", table=spelling.format(table)).execute({})
    assert [commit["operation"] for commit in commits] == ["DELETE", "WRITE"]
    assert "90218" not in json.dumps(commits)


def test_an_anonymous_request_is_refused(orders: Path, anonymous_client: Any) -> None:
    for path in ("tables/orders/versions/1", "tables/nothing/versions/1"):
        assert anonymous_client.get(f"/lakehouse/{path}").status_code in (401, 403)


def test_only_registered_tables_are_opened(orders: Path, ann: Any) -> None:
    for name in ("nothing", "..", str(orders), str(orders).replace("/", "%2F"), "%2e%2e%2forders"):
        page = ann.get(f"/lakehouse/tables/{name}/versions/0")
        assert page.status_code == 404, name
        assert "o_orderkey" not in page.text


def test_a_version_that_does_not_exist_is_answered_with_404(orders: Path, ann: Any) -> None:
    page = ann.get("/lakehouse/tables/orders/versions/9")
    assert page.status_code == 404
    assert "version 9 does not exist" in page.text
    assert ann.get("/lakehouse/tables/orders/versions/one").status_code == 422
    assert ann.get("/lakehouse/tables/customer/versions/0").status_code == 404
    assert ann.get("/lakehouse/tables/orders/versions/-1").status_code == 422


def connect(monkeypatch: pytest.MonkeyPatch, name: str, conn_type: str, **fields: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": conn_type, **fields}))


def connect_to_s3(monkeypatch: pytest.MonkeyPatch, name: str, endpoint: str) -> None:
    """A connection of type lakehouse that refers to a connection of type aws."""
    extra = {"endpoint_url": endpoint, "aws_allow_http": True, "region_name": "us-east-1", "retry_timeout": "0.2"}
    connect(monkeypatch, f"{name}_aws", "aws", login=f"AKIA{name.upper()}", password=SECRET, extra=extra)
    connect(monkeypatch, name, "lakehouse", extra={"aws_conn_id": f"{name}_aws"})


@pytest.fixture
def far(registry_file: Path) -> str:
    """The page of a registered table in S3."""
    body = json.loads(registry_file.read_text())
    body["tables"]["far"] = {"uri": "s3://lake/far"}
    registry_file.write_text(json.dumps(body))
    return "/lakehouse/tables/far/versions/0"


def test_an_unreachable_store_is_not_reported_as_a_missing_table(
    far: str, registry_file: Path, ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to_s3(monkeypatch, "lakehouse_default", "http://127.0.0.1:9")
    silent = ann.get(far)
    assert (silent.status_code, "does not answer" in silent.text, SECRET in silent.text) == (503, True, False)

    connect(monkeypatch, "lakehouse_default", "lakehouse", extra={"aws_conn_id": "aws_gone"})
    unconnected = ann.get(far)
    assert (unconnected.status_code, "aws_gone" in unconnected.text) == (503, True)

    registry_file.write_text('{"tables": ')
    unregistered = ann.get(far)
    assert (unregistered.status_code, "not JSON" in unregistered.text) == (503, True)


def test_an_unreadable_table_is_not_reported_as_a_missing_table(orders: Path, ann: Any) -> None:
    (orders / "_delta_log" / f"{1:020d}.json").write_text('{"add": ')
    torn = ann.get("/lakehouse/tables/orders/versions/1")
    assert (torn.status_code, f"{1:020d}.json" in torn.text) == (500, True)


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with serving("lake") as server:
        yield server


def test_a_link_opens_the_table_with_the_connection_of_the_task(
    far: str, s3: S3Server, ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to_s3(monkeypatch, "lakehouse_default", "http://127.0.0.1:9")
    connect_to_s3(monkeypatch, "shop", s3.url)
    write("s3://lake/far", pa.table({"o_orderkey": [1]}), storage_options=LakehouseHook("shop").storage_options("far"))
    task = LakehouseHealthOperator(task_id="t", table="far", lakehouse_conn_id="shop")
    task.execute({})
    (link,) = task.operator_extra_links
    path = "/lakehouse" + link.get_link(task, ti_key=None).partition("/lakehouse")[2]
    assert path == f"{far}?connection=shop"
    s3.requests.clear()
    page = ann.get(path)
    assert (page.status_code, "o_orderkey" in page.text) == (200, True), page.text
    assert all("Credential=AKIASHOP/" in request.headers["authorization"] for request in s3.requests)


def test_the_page_uses_the_connection_in_the_registry_by_default(
    far: str, registry_file: Path, s3: S3Server, ann: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to_s3(monkeypatch, "lakehouse_default", "http://127.0.0.1:9")
    connect_to_s3(monkeypatch, "shop", s3.url)
    body = json.loads(registry_file.read_text())
    body["tables"]["far"]["airflow"] = {"per": "table", "lakehouse_conn_id": "shop"}
    registry_file.write_text(json.dumps(body))
    options = LakehouseHook("shop").storage_options("far")
    write("s3://lake/far", pa.table({"o_orderkey": [1]}), mode="overwrite", storage_options=options)
    for path in (far, "/lakehouse/tables/far", "/lakehouse/tables/far/maintenance"):
        page = ann.get(path)
        assert page.status_code == 200, page.text
        assert "connection=" not in page.text


def test_a_page_accepts_only_connections_of_type_lakehouse(
    far: str, s3: S3Server, ann: Any, anonymous_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to_s3(monkeypatch, "shop", s3.url)
    connect(monkeypatch, "other", "http", host="127.0.0.1", password=SECRET)
    s3.requests.clear()
    for name in ("shop_aws", "other", "not_there", "../shop", ""):
        page = ann.get(far, params={"connection": name})
        assert page.status_code == 404
        assert page.json() == {"detail": f"the connection {name!r} of type lakehouse does not exist"}
    assert anonymous_client.get(far, params={"connection": "shop"}).status_code in (401, 403)
    assert s3.requests == []
