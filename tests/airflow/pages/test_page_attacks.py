"""Hostile names, values and contents on every route of the pages, and no secret in any of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import deltalake
import pyarrow as pa
import pytest
from markupsafe import escape

from lakehouse_airflow.links import URL_PREFIX
from tests.airflow.conftest import LEDGER_KEY
from tests.airflow.dag_runs import api_client
from tests.airflow.erasure_runs import ledger
from tests.airflow.pages.page_requests import BROWSER, REQUEST, VALUES
from tests.slow_cases import some_slow

pytestmark = pytest.mark.usefixtures("airflow_db")

HTML = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
HOSTILE = (HTML, IMAGE, "' OR 1=1 --", "../../../../etc/passwd", "/etc/passwd", "..", "a\x00b", "x" * 9000)
SECRETS = {name: f"secret-of-{name}" for name in ("password", "source")}


@pytest.fixture(scope="module")
def routes() -> list[Any]:
    from lakehouse_airflow.pages.application import app

    return list(app.routes)


@pytest.fixture
def hostile(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table, its load and an erasure with HTML wherever others write text, and a connection with secrets."""
    body = json.loads(registry_file.read_text())
    body["tables"]["orders"]["source"]["storage_options"] = {"secret": SECRETS["source"]}
    registry_file.write_text(json.dumps(body))
    connection = {"conn_type": "lakehouse", "login": "key", "password": SECRETS["password"]}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_DEFAULT", json.dumps(connection))
    table = registry_file.parent / "tables" / "orders"
    rows = pa.table({"o_custkey": [1], HTML: [HTML]})
    run = dict.fromkeys(("dag_id", "run_id", "task_id"), HTML)
    deltalake.write_deltalake(table, rows, partition_by=[HTML], name=HTML, description=HTML)
    commit = table / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"] |= {"airflow": run, "operation": HTML, "engineInfo": HTML, "userName": HTML}
        if "metaData" in line:
            changed = json.loads(json.dumps(line))
    transaction = {"txn": {"appId": "shop_orders", "version": 0}}
    commit.write_text("\n".join(map(json.dumps, [*lines, transaction])))
    column = {"name": IMAGE, "type": "string", "nullable": True, "metadata": {}}
    schema = json.loads(changed["metaData"]["schemaString"])
    changed["metaData"]["schemaString"] = json.dumps({**schema, "fields": [*schema["fields"], column]})
    info = {"commitInfo": {"operation": IMAGE, "userName": IMAGE, "airflow": {"dag_id": IMAGE}}}
    (table / "_delta_log" / f"{1:020d}.json").write_text("\n".join(map(json.dumps, [info, changed])))
    intents = table / "_ingest" / "shop_orders"
    intents.mkdir(parents=True)
    file = {"name": HTML, "size": 1, "modified": 1, "digest": HTML}
    (intents / f"{0:020d}.json").write_text(json.dumps({"batch": 0, "files": [file], "rules": {}}))
    outcome = {"batch": 0, "refused": {HTML: HTML}, "given_up": HTML}
    (intents / f"{0:020d}.outcome.json").write_text(json.dumps(outcome))
    place = {"table": HTML, "uri": HTML, "version": 0, "rows": 1, "on_disk": {"rows": 1, "files_with_rows": 1}}
    plan = {"kind": "erasure", "request": REQUEST, "subject": "customer", "person": HTML, "requester": HTML}
    run |= {"found_at": "2026-11-25T12:00:00+00:00"}
    ledger().put(REQUEST, "plan", plan | run | {"tables": [place | {"unattributed": None}]})
    return table


def answers(client: Any, routes: list[Any], value: str) -> Iterator[tuple[str, Any]]:
    """The answers when each parameter of each route has this value, one parameter at a time."""
    for route in routes:
        for parameter in route.dependant.path_params:
            path = URL_PREFIX + route.path.format_map({**VALUES, parameter.name: quote(value, safe="")})
            yield path, client.get(path, headers=BROWSER, follow_redirects=False)
        for parameter in route.dependant.query_params:
            path = URL_PREFIX + route.path.format_map(VALUES)
            yield path, client.get(path, params={parameter.name: value}, headers=BROWSER, follow_redirects=False)


@pytest.mark.parametrize("value", some_slow(HOSTILE, 4), ids=range(len(HOSTILE)))
def test_a_hostile_parameter_is_escaped_and_opens_no_table(hostile: Path, routes: list[Any], value: str) -> None:
    count = 0
    for path, answer in answers(api_client(), routes, value):
        count += 1
        assert answer.status_code in (200, 303, 404, 405, 422), (path, answer.status_code)
        for inside in ("<script>", "<img", "root:x"):
            assert inside not in answer.text, path
    assert count >= 12


def test_values_of_other_writers_are_escaped_on_every_page(hostile: Path, routes: list[Any]) -> None:
    hidden = 0
    for route in routes:
        answer = api_client().get(URL_PREFIX + route.path.format_map(VALUES), headers=BROWSER)
        assert answer.status_code == 200, answer.text
        assert HTML not in answer.text, route.path
        assert IMAGE not in answer.text, route.path
        hidden += "&lt;script&gt;" in answer.text
    assert hidden >= 5  # the table, its version, its loads, the erasures and one of them
    page = api_client().get(f"{URL_PREFIX}/tables/orders").text
    assert f"<td>{escape(HTML)}</td>" in page  # a partition
    assert f'<th scope="row">{escape(IMAGE)}</th>\n<td>added as string</td>' in page
    assert f"UTC: {escape(IMAGE)}; by {escape(IMAGE)}" in page  # the time line


def test_no_page_has_a_secret(hostile: Path, routes: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [api_client(), api_client("vic", "VIEWER")]
    secrets = [*SECRETS.values(), LEDGER_KEY]
    for client in clients:
        for route in routes:
            for headers in ({}, BROWSER):
                path = URL_PREFIX + route.path.format_map(VALUES)
                pages = [client.get(path, headers=headers), client.get(path, params={"connection": "lakehouse_ledger"})]
                assert not [secret for secret in secrets for page in pages if secret in page.text], path
    # The answers to errors of the store, whose options have the secret.
    (hostile / "_delta_log" / f"{0:020d}.json").write_text("{")
    for route in routes:
        page = clients[0].get(URL_PREFIX + route.path.format_map(VALUES), headers=BROWSER)
        assert not [secret for secret in secrets if secret in page.text], route.path
