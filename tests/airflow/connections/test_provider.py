"""The provider metadata, by Airflow's own schemas and Airflow's own reader, and the test of a connection."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pyarrow as pa
import pytest
from airflow.sdk import Asset, BaseOperator, BaseSensorOperator, Connection
from airflow.triggers.base import BaseTrigger

from lakehouse_airflow.provider import get_provider_info
from lakehouse_lib import write_deltalake
from tests.s3_server import serving

ROOT = Path(__file__).parents[3]
SCHEMAS = Path(airflow.__file__).parent
PLUGIN = ROOT / "plugins/lakehouse_airflow"


def test_the_metadata_is_valid_by_airflows_schemas() -> None:
    info = get_provider_info()
    # The second schema is that of a provider's source, which alone has the parts of a connection's form.
    source = {**info, "state": "ready", "source-date-epoch": 0}
    for name, metadata in (("provider_info", info), ("provider.yaml", source)):
        jsonschema.validate(metadata, json.loads((SCHEMAS / f"{name}.schema.json").read_text()))


@pytest.mark.parametrize(
    ("kind", "folder", "base"),
    [
        ("operators", "operators", BaseOperator),
        ("sensors", "sensors", BaseSensorOperator),
        ("triggers", ".", BaseTrigger),
    ],
)
def test_every_module_is_listed(kind: str, folder: str, base: type) -> None:
    listed = [name for entry in get_provider_info()[kind] for name in entry["python-modules"]]
    public = {
        value.__name__
        for name in listed
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, type) and issubclass(value, base) and value.__module__.startswith("lakehouse_airflow")
    }
    defined = set()
    for file in (PLUGIN / folder).rglob("*.py") if folder != "." else [PLUGIN / "triggers.py"]:
        if "base" in (file.parent.name, file.stem):
            continue
        name = ".".join(file.relative_to(ROOT / "plugins").with_suffix("").parts)
        defined |= {
            value.__name__
            for value in vars(importlib.import_module(name)).values()
            if isinstance(value, type) and issubclass(value, base) and value.__module__ == name
        }
    assert defined <= public
    assert defined


def test_airflow_reads_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk.configuration import conf
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    manager = ProvidersManager()
    hook = ProvidersManagerTaskRuntime().hooks["lakehouse"]
    assert hook is not None
    assert (hook.hook_name, hook.connection_testable) == ("Lakehouse", True)
    fields = {name.rpartition("__")[2] for name in manager.connection_form_widgets if "lakehouse" in name}
    assert fields >= {"aws_conn_id", "allowed_roots"}
    behaviour = manager.field_behaviours["lakehouse"]
    assert behaviour["relabeling"]["host"] == "Root folder or URI"
    assert conf.get("lakehouse", "registry", fallback="") == ""
    monkeypatch.setenv("AIRFLOW__LAKEHOUSE__REGISTRY", "/etc/lakehouse.yaml")
    assert conf.get("lakehouse", "registry") == "/etc/lakehouse.yaml"


def test_assets_in_s3_are_normalized_without_the_amazon_provider() -> None:
    assert Asset("s3://lake/orders").normalized_uri == "s3://lake/orders"
    with pytest.raises(ValueError, match="must contain a bucket"):
        Asset("s3:///orders")


def answer_to(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> tuple[bool, str]:
    """What the button "Test" of the connection form shows. A worker gets the connection as a URI in its environment."""
    connection = Connection(conn_id="tried", conn_type="lakehouse", **fields)
    monkeypatch.setenv("AIRFLOW_CONN_TRIED", connection.get_uri())
    return Connection.from_uri(connection.get_uri(), conn_id="tried").test_connection()


def test_a_connection_is_tested_by_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(str(tmp_path / "orders"), pa.table({"id": [1]}))
    assert answer_to(monkeypatch, host=str(tmp_path)) == (True, f"{tmp_path} can be listed; it has 1 folders")
    is_valid, text = answer_to(monkeypatch, host=str(tmp_path / "none"))
    assert (is_valid, text) == (
        False,
        f"[LAKEHOUSE_INVALID_CONNECTION] the folder {tmp_path / 'none'} does not exist on this machine",
    )
    is_valid, text = answer_to(monkeypatch, host=str(tmp_path), extra='{"aws_conn_id": "missing"}')
    assert is_valid  # the folder is on a disk
    is_valid, text = answer_to(monkeypatch, host="s3://lake", extra='{"aws_conn_id": "missing"}')
    assert not is_valid
    assert "missing" in text
    monkeypatch.delenv("LAKEHOUSE_REGISTRY", raising=False)
    assert answer_to(monkeypatch)[1].startswith("the connection is valid; nothing was listed")


def test_without_a_folder_a_registered_table_is_listed(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    customer = registry_file.parent / "tables" / "customer"
    assert answer_to(monkeypatch) == (True, f"the log of customer at {customer} can be listed; there is no table yet")
    write_deltalake(str(customer), pa.table({"id": [1]}))
    assert answer_to(monkeypatch)[1].endswith("its latest version is 0")
    registry_file.write_text('{"tables": ')
    is_valid, text = answer_to(monkeypatch)
    assert not is_valid
    assert str(registry_file) in text


def test_a_connection_test_names_a_wrong_key_without_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter2/the+secret=of+the+tests"
    with serving("listed") as server:
        extra = {
            "aws_access_key_id": "testing",
            "aws_secret_access_key": secret,
            "aws_region": "us-east-1",
            "aws_endpoint_url": server.url,
            "aws_allow_http": "true",
        }
        assert answer_to(monkeypatch, host="s3://listed", extra=json.dumps(extra)) == (
            True,
            "s3://listed can be listed; it has 0 folders",
        )
        is_valid, text = answer_to(monkeypatch, host="s3://none", extra=json.dumps(extra))
    assert not is_valid
    assert "s3://none" in text
    assert secret not in text
    is_valid, text = answer_to(monkeypatch, host="s3://listed", extra=json.dumps({**extra, "aws_nonsense": "1"}))
    assert not is_valid
    assert "aws_nonsense" in text
