"""Every route of the pages requires a login and rights, whichever routes there are; no route writes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import deltalake
import pyarrow as pa
import pytest

from lakehouse_airflow.links import URL_PREFIX
from lakehouse_airflow.plugin import LakehousePlugin
from tests.airflow.dag_runs import api_client, let_run
from tests.airflow.erasure_runs import ledger
from tests.airflow.pages.page_requests import BROWSER, REQUEST, VALUES

pytestmark = pytest.mark.usefixtures("airflow_db")


@pytest.fixture(scope="module")
def app() -> Any:
    # Imported here, because other tests would be collected later by the seconds that this takes.
    from lakehouse_airflow.pages.application import app

    return app


@pytest.fixture(scope="module")
def paths(app: Any) -> list[str]:
    """A path of each route, whichever routes there are."""
    return sorted(URL_PREFIX + route.path.format_map(VALUES) for route in app.routes)


@pytest.fixture(scope="module")
def anonymous_client() -> Any:
    return api_client(anonymous=True)


@pytest.fixture
def orders(registry_file: Path) -> Path:
    table = registry_file.parent / "tables" / "orders"
    deltalake.write_deltalake(table, pa.table({"o_custkey": [1]}))
    plan = {"kind": "erasure", "request": REQUEST, "subject": "customer", "person": "ab" * 32, "requester": "bob"}
    run = {"dag_id": "lakehouse_erasure_customer", "run_id": "manual__1", "found_at": "2026-11-25T12:00:00+00:00"}
    ledger().put(REQUEST, "plan", plan | run | {"tables": []})
    return table


@pytest.fixture
def reader_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes a client of a user who may read assets, and of all DAGs only these."""

    def client(*dag_ids: str) -> Any:
        eve = api_client("eve", "VIEWER")
        manager = type(eve.app.state.auth_manager)
        monkeypatch.setattr(manager, "is_authorized_dag", lambda self, *, details, **other: details.id in dag_ids)
        return eve

    return client


def test_every_route_accepts_get_only(app: Any, paths: list[str]) -> None:
    assert {type(route).__name__ for route in app.routes} == {"APIRoute"}
    assert {method for route in app.routes for method in route.methods} == {"GET"}
    assert len(paths) >= 9


def test_an_anonymous_request_is_redirected_to_the_login(orders: Path, anonymous_client: Any, paths: list[str]) -> None:
    for path in paths:
        assert anonymous_client.get(path).status_code == 401, path
        assert anonymous_client.get(path, headers={"Authorization": "Bearer forged"}).status_code in (401, 403)
        sent = anonymous_client.get(f"{path}?q=a%26b", headers=BROWSER, follow_redirects=False)
        assert sent.status_code == 303
        login = urlsplit(sent.headers["location"])
        next_page = parse_qs(login.query)["next"]
        assert (login.netloc, login.path, next_page) == ("", "/api/v2/auth/login", [f"{path}?q=a%26b"])
        form = anonymous_client.get(sent.headers["location"], follow_redirects=False)
        assert urlsplit(form.headers["location"]).path == "/auth/login"


def test_a_table_is_shown_to_those_who_may_read_its_dag(
    registry_file: Path, orders: Path, reader_of: Callable[..., Any], app: Any
) -> None:
    body = json.loads(registry_file.read_text())
    body["tables"]["orders"]["airflow"] = {"per": "table"}
    registry_file.write_text(json.dumps(body))
    of_tables = [route.path for route in app.routes if "{table}" in route.path]
    assert len(of_tables) >= 3

    other = reader_of("lakehouse_maintenance")
    for path in of_tables:
        answer = other.get(URL_PREFIX + path.format_map(VALUES))
        assert answer.status_code == 403, path
        assert "o_custkey" not in answer.text + other.get(URL_PREFIX + path.format_map(VALUES), headers=BROWSER).text
    listed = other.get("/lakehouse/tables").text
    assert (">customer</a>" in listed, ">orders</a>" in listed, ">orders_quarantine</a>" in listed) == (
        True,
        False,
        False,
    )

    own = reader_of("lakehouse_maintenance_orders")
    assert own.get("/lakehouse/tables/orders").status_code == 200
    assert own.get("/lakehouse/tables/customer").status_code == 403
    listed = own.get("/lakehouse/tables").text
    assert (">orders</a>" in listed, ">orders_quarantine</a>" in listed, "customer" in listed) == (True, True, False)
    page = api_client().get("/lakehouse/tables/orders/maintenance").text
    assert "lakehouse_maintenance_orders" in page

    assert "no table whose DAG you may read" in reader_of().get("/lakehouse/tables").text


def test_without_the_right_to_read_assets_there_is_no_page(
    orders: Path, paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    eve = api_client("eve", "VIEWER")
    monkeypatch.setattr(type(eve.app.state.auth_manager), "is_authorized_asset", lambda self, **question: False)
    assert {eve.get(path).status_code for path in paths} == {403}


def test_headers_forbid_foreign_content_and_inline_scripts_and_styles(orders: Path, paths: list[str]) -> None:
    for path in paths:
        answer = api_client().get(path, headers=BROWSER)
        assert answer.status_code == 200, answer.text
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        if answer.headers["content-type"].startswith("text/html"):
            for inside in (" style=", "<style", "<script>", " onclick", "http://", "https://", "javascript:"):
                assert inside not in answer.text, inside
            assert answer.headers["cache-control"] == "no-store"


def test_each_role_sees_its_permitted_pages(orders: Path, app: Any) -> None:
    from lakehouse_airflow.pages.access import require_trigger

    let_run("lakehouse_maintenance")
    body = {"logical_date": None, "conf": {"tables": ["orders"]}}
    starts_runs = [
        route for route in app.routes if require_trigger in {each.call for each in route.dependant.dependencies}
    ]
    assert len(starts_runs) == 1
    for role, may_start in (("VIEWER", False), ("USER", True), ("OP", True), ("ADMIN", True)):
        client = api_client(role.lower(), role)
        for route in app.routes:
            expected = 403 if route in starts_runs and not may_start else 200
            assert client.get(URL_PREFIX + route.path.format_map(VALUES)).status_code == expected, (role, route.path)
        assert ("Run maintenance" in client.get("/lakehouse/tables/orders").text) == may_start
    answer = api_client("vic", "VIEWER").post("/api/v2/dags/lakehouse_maintenance/dagRuns", json=body)
    assert answer.status_code == 403


def test_a_post_of_another_site_is_refused(orders: Path, paths: list[str]) -> None:
    let_run("lakehouse_maintenance")
    client = api_client()
    cookie = client.headers.pop("authorization").removeprefix("Bearer ")
    client.cookies.set("_token", cookie)
    assert client.get("/lakehouse/tables").status_code == 200  # the cookie of the session is enough for the pages
    body = json.dumps({"logical_date": None, "conf": {"tables": ["orders"]}})
    # Without a preflight request, a page of another site can send only these types.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"Content-Type": kind, "Origin": "https://evil.example"}
        sent = client.post("/api/v2/dags/lakehouse_maintenance/dagRuns", content=body, headers=headers)
        assert sent.status_code == 422, kind
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/v2/dags/lakehouse_maintenance/dagRuns", headers=preflight)
    assert "access-control-allow-origin" not in answer.headers
    for path in paths:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            sent = client.request(method, path, content=body, headers={"Origin": "https://evil.example"})
            assert sent.status_code == 405, (method, path)
        assert "access-control-allow-origin" not in client.get(path, headers={"Origin": "https://evil.example"}).headers


def test_an_error_is_a_page_for_a_browser(orders: Path) -> None:
    answer = api_client().get("/lakehouse/tables/orders/versions/x", headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "text/html; charset=utf-8")
    assert "version: Input should be a valid integer" in answer.text
    assert api_client().get("/lakehouse/", follow_redirects=False).headers["location"] == "/lakehouse/tables"


def test_links_are_below_the_base_path_of_airflow(orders: Path, app: Any) -> None:
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    outer = FastAPI(root_path="/team/airflow")
    outer.mount(URL_PREFIX, app)
    token = api_client().headers["authorization"]
    client = TestClient(outer, headers={"Authorization": token})
    for path in ("/lakehouse/tables", "/lakehouse/tables/orders", "/lakehouse/tables/orders/maintenance"):
        page = client.get(f"/team/airflow{path}").text
        targets = [
            part.split('"')[0] for part in page.replace("data-api=", "href=").replace("src=", "href=").split('href="')
        ]
        assert len(targets) > 3
        assert all(target.startswith("/team/airflow/") for target in targets[1:])


def test_the_navigation_of_airflow_has_the_pages(orders: Path) -> None:
    (view,) = LakehousePlugin.external_views
    client = api_client()
    plugins = client.get("/api/v2/plugins").json()["plugins"]
    (listed,) = [plugin for plugin in plugins if plugin["name"] == "lakehouse"]
    assert [each["url_route"] for each in listed["external_views"]] == ["lakehouse"]
    for path in (view["href"], view["icon"], view["icon_dark_mode"]):
        assert client.get(f"/{path}").status_code == 200
