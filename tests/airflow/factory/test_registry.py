"""The registry: the meaning of its entries, and its errors."""

import json
import subprocess
import sys
import traceback
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from lakehouse_airflow.errors import as_task_failure
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.fleet.registry import RegistryError, Subject, read_registry


def edit(file: Path, *keys: str, value: Any) -> None:
    body = json.loads(file.read_text())
    place = body
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    file.write_text(json.dumps(body))


def test_paths_are_relative_to_the_registry(registry_file: Path) -> None:
    edit(registry_file, "tables", "lineitem", "uri", value="s3://bucket/lineitem")
    registry = load_registry()
    orders = registry.table("orders")
    assert orders.uri == str(registry_file.parent / "tables" / "orders")
    assert orders.source is not None
    assert orders.source.landing == str(registry_file.parent / "landing" / "orders")
    assert orders.schema_file == str(registry_file.parent / "orders.schema.json")
    assert registry.table("lineitem").uri == "s3://bucket/lineitem"
    assert registry.loaded_tables() == ["orders"]


def test_an_erasure_includes_the_quarantine_and_starts_with_the_referring_tables(registry_file: Path) -> None:
    subject = load_registry().subject("customer")
    assert subject.tables() == ["lineitem", "orders_quarantine", "orders", "customer"]
    assert {rows.table: rows.quarantine for rows in subject.rows}["orders_quarantine"]
    assert load_registry().table("orders_quarantine").uri.endswith("tables/orders_quarantine")


def rows_through(links: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a subject: each table is found through another one."""
    return [
        {"table": table, "key": "k", "through": {"table": parent, "key": "k", "select": "s"}}
        for table, parent in links.items()
    ]


def subject_of(*rows: dict[str, Any]) -> Subject:
    return Subject.model_validate({"id_type": "long", "approvers": ["ann"], "rows": rows})


def test_rows_are_deleted_before_the_rows_through_which_they_are_found() -> None:
    links = {"orders": "customer", "items": "orders", "parcels": "items", "notes": "orders", "reviews": "customer"}
    for entries in permutations(rows_through(links)):
        order = subject_of({"table": "customer", "key": "k"}, {"table": "logins", "key": "k"}, *entries).tables()
        assert sorted(order) == sorted([*links, "customer", "logins"])
        assert all(order.index(table) < order.index(parent) for table, parent in links.items())
        assert order[-2:] == ["logins", "customer"]


def test_each_table_is_in_the_order_if_tables_are_found_through_each_other() -> None:
    assert subject_of(*rows_through({"a": "b", "b": "a", "c": "c"})).tables() == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("tables", "orders", "source", "delimeter"), ";", "tables.orders.source.delimeter: unknown key"),
        (("tabels",), {}, "tabels: unknown key"),
        (("tables", "orders", "source", "format"), "xml", "tables.orders.source.format: .*'csv'.*got 'xml'"),
        (("tables", "orders", "source", "files_per_batch"), 0, "files_per_batch: .*got 0"),
        (("tables", "orders", "uri"), "", "tables.orders.uri: the location is empty"),
        (("tables", "orders", "schema"), None, "tables.orders: a table with a source needs schema"),
        (("tables", "a/b"), {"uri": "x"}, "tables.a/b"),
        (("report", "tables"), ["nothing"], "table nothing does not exist; expected one of customer, lineitem, orders"),
        (("subjects", "customer", "id_type"), "float", "subjects.customer.id_type"),
        (("subjects", "customer", "approvers"), [], "subjects.customer: approvers is empty: name at least one user id"),
        (("subjects", "customer", "approvers"), [""], "subjects.customer.approvers.0"),
        (("subjects", "customer", "response_hours"), 0, "subjects.customer.response_hours: .*got 0"),
        (("subjects", "customer", "notifiers"), ["os.system"], r"notifiers.0: .*got 'os\.system'"),
        (("repair",), {"approvers": []}, "repair: approvers is empty"),
        (("ledger",), None, 'subjects.customer needs a ledger: write "ledger": LOCATION'),
        (("tables", "orders", "vacuum", "retention_hours"), float("inf"), "retention_hours: .*finite.*got inf"),
        (("tables", "orders", "source", "settle_seconds"), float("nan"), "settle_seconds: .*finite.*got nan"),
    ],
)
def test_an_error_names_the_file_and_the_key(
    registry_file: Path, keys: tuple[str, ...], value: Any, message: str
) -> None:
    edit(registry_file, *keys, value=value)
    with pytest.raises(RegistryError, match=message) as error:
        read_registry(registry_file)
    assert str(registry_file) in str(error.value)


def test_a_duplicate_key_is_refused(registry_file: Path) -> None:
    text = registry_file.read_text()
    registry_file.write_text(text.replace('"tables": {', '"tables": {"orders": {"uri": "tables/old"}, ', 1))
    with pytest.raises(RegistryError, match=r"lakehouse\.json: tables\.orders: the key 'orders' occurs twice"):
        read_registry(registry_file)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("report", "output"), "tables/../tables/orders/", r"report\.output has the location of tables\.orders"),
        (
            ("report", "output"),
            "file://{here}/tables/orders_quarantine",
            r"the location of tables\.orders\.quarantine",
        ),
        (("tables", "orders", "quarantine"), "tables/orders/", r"quarantine has the location of tables\.orders"),
        (("tables", "lineitem_of"), {"uri": "tables/x", "quarantine": "tables/orders"}, r"lineitem_of\.quarantine has"),
        (
            ("tables", "orders_quarantine"),
            {"uri": "tables/x"},
            "_quarantine has the name of orders's quarantine",
        ),
        (("tables", "orders", "source", "landing"), "tables/orders/landing", r"landing is in the folder of tables\.or"),
        (("tables", "orders", "source", "landing"), "tables/lineitem", r"landing is in the folder of tables\.lineitem"),
        (("tables", "orders", "schema"), "tables/orders/schema.json", r"schema is in the folder of tables\.orders"),
        (("tables", "lineitem", "uri"), "landing/orders/items", r"lineitem is in the folder of tables\.orders"),
        (("tables", "orders", "quarantine"), "landing/orders/a/b", r"quarantine is in the folder of tables\.orders"),
        (("report", "output"), "link_to_landing/orders/x", r"output is in the folder of tables\.orders"),
        (("tables", "orders", "source", "landing"), ".", r"customer is in the folder of tables\.orders"),
        (("report", "sql"), "tables/orders_by_customer/a/b.sql", r"report\.sql is in the folder of report\.output"),
        (("ledger",), "tables/orders", r"ledger and tables\.orders have the same location"),
        (("ledger",), "tables/orders/_ledger", r"ledger and tables\.orders have the same location, or one is inside"),
        (("ledger",), "tables", r"ledger and tables\.\w+ have the same location"),
        (("ledger",), "tables/orders_quarantine/x", r"ledger and tables\.orders\.quarantine have"),
        (("ledger",), "tables/orders_by_customer", r"ledger and report\.output have"),
        (("ledger",), "landing/orders", r"ledger and tables\.orders\.source\.landing have"),
        (("ledger",), "landing/orders/_ledger/", r"ledger and tables\.orders\.source\.landing have"),
        (("records",), "tables/orders/records", r"records and tables\.orders have the same location, or one is inside"),
        (("records",), "landing/orders", r"records and tables\.orders\.source\.landing have"),
        (("records",), "ledger/records", r"records and ledger have"),
        (("tables", "lineitem", "uri"), "./tables/customer", r"customer has the location of tables\.lineitem"),
        (("ledger",), "landing/", r"ledger and tables\.orders\.source\.landing have"),
        (("ledger",), "file://{here}/landing/x/../orders//ledger/", r"ledger and tables\.orders\.source\.landing have"),
        (("ledger",), "FILE://localhost{here}/tables/%6Frders/l", r"ledger and tables\.orders have the same location"),
        (("ledger",), "link/orders/ledger", r"ledger and tables\.orders have the same location"),
        (("ledger",), "{here}/link", r"ledger and tables\.\w+ have the same location"),
        (("tables", "lineitem", "uri"), "link_to_ledger/t", r"ledger and tables\.lineitem have the same location"),
        (
            ("tables", "orders", "source", "landing"),
            "link_to_ledger",
            r"ledger and tables\.orders\.source\.landing have",
        ),
    ],
)
def test_overlapping_locations_are_refused(
    registry_file: Path, keys: tuple[str, ...], value: Any, message: str
) -> None:
    here = str(registry_file.parent)
    (registry_file.parent / "link").symlink_to("tables")
    (registry_file.parent / "link_to_ledger").symlink_to("ledger")
    (registry_file.parent / "link_to_landing").symlink_to("landing")
    edit(registry_file, *keys, value=value.replace("{here}", here) if isinstance(value, str) else value)
    with pytest.raises(RegistryError, match=message) as error:
        read_registry(registry_file)
    assert here not in str(error.value).replace(str(registry_file), "")


@pytest.mark.parametrize(
    ("ledger", "table"),
    [
        ("s3://lake/tables/orders", "s3a://lake/tables/orders/"),
        ("s3://lake/tables/orders/ledger", "S3://lake//tables/orders"),
        ("s3://lake/tables/%6Frders/", "s3://lake/tables/orders"),
        ("s3://lake", "s3://lake/tables/orders"),
        ("s3://lake/", "s3://lake/tables/orders"),
    ],
)
def test_a_ledger_in_s3_is_apart_from_tables(registry_file: Path, ledger: str, table: str) -> None:
    edit(registry_file, "ledger", value=ledger)
    assert load_registry().ledger == ledger
    edit(registry_file, "tables", "lineitem", "uri", value=table)
    with pytest.raises(RegistryError, match=r"ledger and tables\.lineitem have the same location"):
        read_registry(registry_file)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("tables", "orders_quarantine"), {"uri": "tables/orders_quarantine/"}),
        (("tables", "refused"), {"uri": "tables/orders_quarantine"}),
        (("tables", "orders", "schema"), "tables/orders/_schema/orders.json"),
        (("tables", "orders", "source", "landing"), "tables/orders_landing"),
        (("tables", "lineitem", "uri"), "s3://lake/tables"),
        (("tables", "lineitem", "uri"), "landing/orders/_tables/lineitem"),
        (("tables", "orders", "quarantine"), "landing/orders_quarantine"),
        (("report", "sql"), "//nas/report.sql"),
        (("ledger",), "tables/ledger"),
        (("ledger",), "s3://lake/ledger"),
        (("ledger",), "tables/orders_ledger"),
        (("ledger",), "landing/ledger"),
        (("ledger",), "landing/orders_ledger"),
    ],
)
def test_separate_locations_are_accepted(registry_file: Path, keys: tuple[str, ...], value: Any) -> None:
    edit(registry_file, *keys, value=value)
    assert "orders" in load_registry().tables


@pytest.mark.parametrize(
    ("keys", "location", "scheme"),
    [
        (("tables", "orders", "schema"), "s3a:/lake/orders.json", "s3a:"),
        (("tables", "orders", "suite"), "https://ada:hunter2@shop.example/suite.json", "https:"),
        (("report", "sql"), "file:///data/report.sql", "file:"),
    ],
)
def test_a_location_that_is_read_as_a_plain_file_has_no_scheme(
    registry_file: Path, keys: tuple[str, ...], location: str, scheme: str
) -> None:
    edit(registry_file, *keys, value=location)
    with pytest.raises(RegistryError, match=rf"{'.'.join(keys)}: .*{scheme}") as error:
        read_registry(registry_file)
    shown = "".join(traceback.format_exception(error.value))
    assert location not in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    "keys",
    [
        ("tables", "lineitem", "uri"),
        ("tables", "orders", "quarantine"),
        ("tables", "orders", "source", "landing"),
        ("report", "output"),
    ],
)
def test_a_scheme_with_one_slash_is_refused(registry_file: Path, keys: tuple[str, ...]) -> None:
    edit(registry_file, *keys, value="s3:/ada:hunter2@lake/t")
    with pytest.raises(RegistryError, match=rf"{'.'.join(keys)}: .*expected s3:// \(line 1\)$") as error:
        read_registry(registry_file)
    assert "hunter2" not in "".join(traceback.format_exception(error.value))


def test_a_landing_folder_in_an_object_store(registry_file: Path) -> None:
    options = {"region": "eu-central-1", "allow_http": "true"}
    edit(registry_file, "tables", "orders", "source", "storage_options", value=options)
    edit(registry_file, "tables", "orders", "source", "pattern", value="**/*.csv.gz")
    edit(registry_file, "tables", "orders", "source", "landing", value="s3://lake/landing")
    source = load_registry().table("orders").source
    assert source is not None
    assert (source.landing, source.pattern, source.storage_options) == ("s3://lake/landing", "**/*.csv.gz", options)
    edit(registry_file, "tables", "orders", "uri", value="s3://lake")
    with pytest.raises(RegistryError, match=r"source\.landing is in the folder of tables\.orders"):
        load_registry()


@pytest.mark.parametrize(
    ("pattern", "is_refused"),
    [
        ("**/*.parquet", True),
        ("*/*.parquet", True),
        ("lake/orders/*.csv", True),
        ("*.csv", False),
        ("inbox/**/*.csv", False),
        ("inbox/lake/*/*.csv", False),
        ("**/*", True),
        ("**/part-?????.parquet", True),
        ("**/*.csv.gz", False),
        ("*/*.csv", False),
    ],
)
@pytest.mark.parametrize("bucket", ["s3://lake", "s3a://lake//landing"])
def test_a_table_is_not_where_a_source_finds_files(
    registry_file: Path, bucket: str, pattern: str, is_refused: bool
) -> None:
    edit(registry_file, "tables", "orders", "source", "landing", value=bucket)
    edit(registry_file, "tables", "orders", "source", "pattern", value=pattern)
    edit(registry_file, "tables", "lineitem", "uri", value=f"{bucket}/lake")
    if is_refused:
        with pytest.raises(RegistryError, match=r"lineitem is in the folder of tables\.orders\.source\.landing"):
            load_registry()
    else:
        assert load_registry().loaded_tables() == ["orders"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("storage_options", {"AWS_SECRET_ACCESS_KEY": "hunter2"}, "has the credential AWS_SECRET_ACCESS_KEY"),
        ("pattern", "../*", r"pattern is '\.\./\*', which has an empty part"),
    ],
)
def test_a_landing_folder_with_a_credential_or_a_bad_pattern(
    registry_file: Path, key: str, value: Any, message: str
) -> None:
    edit(registry_file, "tables", "orders", "source", "landing", value="s3://lake/landing")
    edit(registry_file, "tables", "orders", "source", key, value=value)
    with pytest.raises(RegistryError, match=message) as error:
        read_registry(registry_file)
    assert "hunter2" not in "".join(traceback.format_exception(error.value))


def test_an_approval_policy_has_defaults_that_are_strict(registry_file: Path) -> None:
    customer = load_registry().subject("customer")
    assert (customer.approvers, customer.four_eyes, customer.response_hours) == (("ann",), True, 720)
    assert load_registry().ledger == str(registry_file.parent / "ledger")


def test_a_subject_without_approvers_is_refused(registry_file: Path) -> None:
    body = json.loads(registry_file.read_text())
    del body["subjects"]["customer"]["approvers"]
    registry_file.write_text(json.dumps(body))
    with pytest.raises(RegistryError, match=r"subjects\.customer: approvers is empty"):
        read_registry(registry_file)


def test_the_error_of_a_missing_registry_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEHOUSE_REGISTRY", raising=False)
    with pytest.raises(RegistryError, match=r"LAKEHOUSE_REGISTRY.*\[lakehouse\]"):
        load_registry()
    with pytest.raises(RegistryError, match=r"nowhere\.json: the registry cannot be read"):
        load_registry(tmp_path / "nowhere.json")
    (tmp_path / "torn.json").write_text('{"tables": ')
    with pytest.raises(RegistryError, match=r"torn\.json: the registry is not JSON"):
        load_registry(tmp_path / "torn.json")


def test_airflow_shows_the_code_once(registry_file: Path) -> None:
    registry_file.write_text('{"tables": {"orders": {}, "orders": {}}}')
    with pytest.raises(AirflowFailException) as failure, as_task_failure():
        load_registry()
    assert str(failure.value).startswith(f"RegistryError: [DELTA_REGISTRY_INVALID] {registry_file}: ")
    assert str(failure.value).count("DELTA_REGISTRY_INVALID") == 1


def test_airflow_cfg_may_name_the_registry(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEHOUSE_REGISTRY")
    monkeypatch.setenv("AIRFLOW__LAKEHOUSE__REGISTRY", str(registry_file))
    assert "orders" in load_registry().tables


def test_the_registry_may_be_in_an_object_store(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_REGISTRY", registry_file.as_uri())
    body = {"tables": {"orders": {"uri": "tables/orders"}}}
    registry_file.write_text(json.dumps(body))
    assert load_registry().table("orders").uri == f"{registry_file.parent.as_uri()}/tables/orders"


def test_unknown_names_list_the_known_ones(registry_file: Path) -> None:
    with pytest.raises(RegistryError, match="no table 'nothing'; expected one of customer, lineitem, orders"):
        load_registry().table("nothing")
    with pytest.raises(RegistryError, match="no subject 'nobody'; expected one of customer"):
        load_registry().subject("nobody")


@pytest.mark.slow
def test_reading_the_registry_imports_nothing_heavy(registry_file: Path) -> None:
    code = """
import sys
from lakehouse_airflow.registry import load_registry
load_registry()
heavy = {"pyarrow", "pyspark", "pandas", "sqlglot"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
