"""Storage options of tables: each kind of table gets its own, and the lakehouse connection's options win."""

import json
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow.connections.store_options import account_type, store_options
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_lib import write_deltalake
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store import open_store
from lakehouse_lib.store.s3 import options as s3_options
from lakehouse_lib.store.s3.options import S3Options
from lakehouse_lib.store.schemes import kind_of
from tests.lakehouse_lib.store.trial_store import TRIAL


@pytest.fixture(autouse=True)
def _shop_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of type aws to which ``lakehouse_default`` refers."""
    extra = {"aws_session_token": "of+the+shop", "region_name": "us-east-1", "endpoint_url": "https://s3.shop.example"}
    connection = {"conn_type": "aws", "login": "AKIASHOP", "password": "hunter2", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_S3", json.dumps(connection))


def own_options(monkeypatch: pytest.MonkeyPatch, **options: Any) -> LakehouseHook:
    """The hook, with these options in the connection ``lakehouse_default`` besides its ``aws_conn_id``."""
    own = {"conn_type": "lakehouse", "extra": {"aws_conn_id": "shop_s3", **options}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_DEFAULT", json.dumps(own))
    return LakehouseHook()


def test_options_of_s3_do_not_affect_tables_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(tmp_path / "t", pa.table({"a": [1]}))
    hook = own_options(monkeypatch, AWS_REGION="eu-central-1", timeout=3, allow_http=True)
    assert hook.storage_options(str(tmp_path / "t")) is None
    assert hook.version(str(tmp_path / "t")) == 0
    hook = own_options(monkeypatch, AWS_REGOIN="eu-central-1")
    for table in (str(tmp_path / "t"), "s3://lake/t"):
        with pytest.raises(InvalidArgumentError, match="AWS_REGOIN"):
            hook.version(table)


def test_own_options_win_over_those_of_the_aws_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = own_options(monkeypatch, AWS_DEFAULT_REGION="eu-central-1", Endpoint="https://s3.example.com")
    opened = S3Options.of(hook.storage_options("s3://lake/t") or {}, "t", {})
    assert (opened.region, opened.endpoint_url) == ("eu-central-1", "https://s3.example.com")
    assert (opened.access_key_id, opened.session_token) == ("AKIASHOP", "of+the+shop")
    hook = own_options(monkeypatch, AWS_ACCESS_KEY_ID="AKIAOWN", AWS_SECRET_ACCESS_KEY="own")
    opened = S3Options.of(hook.storage_options("s3://lake/t") or {}, "t", {})
    assert (opened.access_key_id, opened.secret_access_key, opened.session_token) == ("AKIAOWN", "own", None)
    assert (opened.region, opened.endpoint_url) == ("us-east-1", "https://s3.shop.example")


def test_an_option_that_is_null_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = own_options(monkeypatch, AWS_REGION=None, session_token=None, endpoint_url=None, allowed_roots=None)
    opened = S3Options.of(hook.storage_options("s3://lake/t") or {}, "t", {})
    assert (opened.region, opened.endpoint_url) == ("us-east-1", "https://s3.shop.example")
    assert (opened.session_token, opened.allowed_roots) == ("of+the+shop", ())
    assert hook.storage_options("/data/t") is None


@pytest.mark.parametrize("kind", ["lakehouse", "aws"])
@pytest.mark.parametrize("extra", ['{"role_arn": "hunter2"', "hunter2", '["hunter2"]', '"hunter2"', "2"])
def test_an_extra_that_is_not_a_json_object_is_refused(kind: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": kind, "extra": extra}))
    with pytest.raises(AirflowFailException, match="the extra of the connection 'lake' is not a JSON object") as error:
        LakehouseHook("lake").storage_options("s3://lake/t")
    assert "hunter2" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("extra", ["", " ", "{}"])
def test_an_empty_extra_gives_no_storage_options(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "lakehouse", "extra": extra}))
    assert LakehouseHook("lake").storage_options("s3://lake/t") is None


def test_allowed_roots_serve_tables_on_disk_and_in_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    def roots(value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
        hook = own_options(monkeypatch, allowed_roots=value)
        stores = [open_store(table, hook.storage_options(table)) for table in ("/data/t", "s3://lake/t")]
        return stores[0].allowed_roots, stores[1].allowed_roots

    assert roots("/data/source:/more data") == (("/data/source", "/more data"), ())
    assert roots("s3://lake/a s3://lake/b") == ((), ("s3://lake/a", "s3://lake/b"))
    both = ["/data/source", "s3://lake/a", "/more data", "s3a://lake/b"]
    assert roots(both) == (("/data/source", "/more data"), ("s3://lake/a", "s3://lake/b"))


@pytest.mark.parametrize("name", sorted(s3_options._NAMES.keys() - {"allowed_roots"}))
def test_a_table_on_disk_gets_no_option_of_s3(name: str) -> None:
    own = {name: "x", f"AWS_{name.upper()}": "x", "unknown": "y"}
    assert store_options("/data/t", own, {}) == {"unknown": "y"}


def test_a_store_that_the_plugin_does_not_know_gets_its_own_options() -> None:
    own = {
        "folder": "/shelves",
        "trial_key": "k",
        "AWS_REGION": "x",
        "unknown": "y",
        "allowed_roots": ["/a", "trial://b"],
    }
    expected = {"folder": "/shelves", "trial_key": "k", "unknown": "y", "allowed_roots": "trial://b"}
    assert store_options("trial://shelf/t", own, {}) == expected
    assert store_options("/data/t", own, {}) == {"unknown": "y", "allowed_roots": "/a"}
    assert store_options("trial://shelf/t", {"folder": "/own"}, {"folder": "/other", "trial_key": "k"}) == {
        "folder": "/own",
        "trial_key": "k",
    }
    assert kind_of("trial://shelf/t") is TRIAL
    assert account_type("trial://shelf/t") is None
    assert account_type("s3a://lake/t") == "aws"
