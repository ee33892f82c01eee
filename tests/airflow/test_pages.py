"""The page of a table version: for whoever may see assets, of registered tables, and safe to look at."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from tests.airflow.dag_runs import api_client

pytestmark = pytest.mark.usefixtures("airflow_db")
NASTY = "<script>alert(1)</script>"


@pytest.fixture
def orders(registry_file: Path) -> Path:
    """Three versions of the table ``orders``, with a nasty note in a commit and a nasty column."""
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
def nobody() -> Any:
    return api_client(anonymous=True)


def test_it_shows_commit_files_and_schema(orders: Path, ann: Any) -> None:
    page = ann.get("/lakehouse/tables/orders/versions/1")
    assert page.status_code == 200, page.text
    assert "<h1>orders, version 1</h1>" in page.text
    assert "<tr><th>Files</th><td>2</td></tr>" in page.text
    assert "<tr><th>o_orderkey</th><td>long</td></tr>" in page.text
    assert "WRITE" in page.text


def test_what_others_wrote_is_text(orders: Path, ann: Any) -> None:
    page = ann.get("/lakehouse/tables/orders/versions/1")
    assert page.status_code == 200
    assert NASTY not in page.text
    assert page.text.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 2
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_nobody_gets_nothing(orders: Path, nobody: Any) -> None:
    for path in ("tables/orders/versions/1", "tables/nothing/versions/1"):
        assert nobody.get(f"/lakehouse/{path}").status_code in (401, 403)


def test_only_registered_names_open_a_folder(orders: Path, ann: Any) -> None:
    for name in ("nothing", "..", str(orders), str(orders).replace("/", "%2F"), "%2e%2e%2forders"):
        page = ann.get(f"/lakehouse/tables/{name}/versions/0")
        assert page.status_code == 404, name
        assert "o_orderkey" not in page.text


def test_a_version_that_never_was_is_said(orders: Path, ann: Any) -> None:
    page = ann.get("/lakehouse/tables/orders/versions/9")
    assert page.status_code == 404
    assert "version 9 does not exist" in page.text
    assert ann.get("/lakehouse/tables/orders/versions/one").status_code == 422
    assert ann.get("/lakehouse/tables/customer/versions/0").status_code == 404
