"""Credentials of an Airflow connection open tables in S3 (moto's server) and are visible nowhere else."""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from lakehouse_airflow import polling
from lakehouse_airflow.connections.aws import aws_options
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.history import LakehouseHistoryOperator
from lakehouse_airflow.sensors import LakehouseTableVersionSensor
from lakehouse_airflow.triggers import TableTrigger
from lakehouse_lib import DeltaTable, write_deltalake
from tests.airflow.conftest import HOME, LEDGER_KEY, home_files
from tests.airflow.dag_runs import run_dag
from tests.airflow.erasure_runs import Run, ledger, put_hitl_detail
from tests.s3_server import Answer, Forward, Request, S3Server, serving

SECRET = "hunter2/the+secret=of+the+tests"
TOKEN = "IQoJ/the+session+token=of+the+tests"
KEY = "AKIATESTSOFCONNECTION"


@pytest.fixture(scope="module")
def s3() -> Any:
    with serving("lake") as server:
        yield server


@pytest.fixture
def connection(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The connection ``shop_s3``, to which ``lakehouse_default`` refers; the environment has no credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    extra = {"aws_session_token": TOKEN, "region_name": "us-east-1", "endpoint_url": s3.url, "aws_allow_http": True}
    connection = {"conn_type": "aws", "login": KEY, "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_S3", json.dumps(connection))
    own = {"conn_type": "lakehouse", "host": "s3://lake", "extra": {"aws_conn_id": "shop_s3"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_DEFAULT", json.dumps(own))
    s3.requests.clear()
    return connection


def aws(login: str | None = KEY, password: str | None = SECRET, **extra: Any) -> dict[str, str]:
    described = {"conn_id": "it", "conn_type": "aws", "login": login, "password": password}
    return aws_options(Connection(**described, extra=json.dumps(extra)))


def test_fields_of_the_aws_connection_are_storage_options() -> None:
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
    assert aws() == keys
    assert aws(None, None, **keys, verify=True) == keys
    assert aws(aws_session_token=TOKEN, region_name="eu-central-1", endpoint_url="https://s3.example.com") == {
        **keys,
        "aws_session_token": TOKEN,
        "aws_region": "eu-central-1",
        "aws_endpoint_url": "https://s3.example.com",
    }
    services = {"s3": {"endpoint_url": "https://here"}, "sts": {"endpoint_url": "https://there"}}
    assert aws(endpoint_url="https://anything", service_config=services)["aws_endpoint_url"] == "https://here"
    # Options that the provider does not know are passed to the store, which refuses unknown options.
    assert aws(None, None, aws_skip_signature=True, timeout=3) == {"aws_skip_signature": "true", "timeout": "3"}


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"config_kwargs": {"proxies": {"https": SECRET}}}, "config_kwargs"),
        ({"verify": False, "session_kwargs": {"aws_secret_access_key": SECRET}}, "session_kwargs, verify"),
        ({"role_arn": "arn:x", "assume_role_method": "assume_role_with_saml"}, "assume_role_method"),
        ({"profile_name": "nobody"}, "profile"),
        ({"role_arn": "arn:x", "assume_role_kwargs": SECRET}, "assume_role_kwargs .*not a JSON object"),
        ({"service_config": [SECRET]}, "service_config .*not a JSON object"),
        ({"service_config": {"s3": SECRET}}, "s3 .*not a JSON object"),
        ({"service_config": {"s3": {"region_name": SECRET}, "sqs": {}}}, r"has s3\.region_name, sqs, which is not"),
    ],
)
def test_unsupported_settings_of_an_aws_connection_are_refused_by_name(
    connection: Any, extra: dict[str, Any], named: str
) -> None:
    with pytest.raises(AirflowFailException, match=rf"the connection 'it'.*{named}") as error:
        aws(**extra)
    assert SECRET not in str(error.value)


def test_a_role_is_assumed(connection: Any, s3: S3Server) -> None:
    from airflow.sdk._shared.secrets_masker import redact

    services = {"sts": {"endpoint_url": s3.url}}
    role = {"role_arn": "arn:aws:iam::123456789012:role/lake", "assume_role_kwargs": {"DurationSeconds": 900}}
    options = aws(region_name="us-east-1", service_config=services, endpoint_url=s3.url, aws_allow_http=True, **role)
    assert options["aws_access_key_id"].startswith("ASIA")
    assert SECRET not in options.values()
    assert redact(f"x{options['aws_secret_access_key']}x{options['aws_session_token']}x") == "x***x***x"
    write_deltalake("s3://lake/by_role", pa.table({"a": [1]}), storage_options=options)
    assert f"Credential={options['aws_access_key_id']}/" in s3.requests[-1].headers["authorization"]
    with pytest.raises(AirflowException, match="connection 'it': Could not connect") as error:
        aws(region_name="us-east-1", service_config={"sts": {"endpoint_url": "http://127.0.0.1:9"}}, **role)
    assert not isinstance(error.value, AirflowFailException)  # the service may be available later


ROLE = {"role_arn": "arn:aws:iam::123456789012:role/lake", "region_name": "us-east-1"}


@pytest.mark.parametrize("field", ["login", "password", "aws_session_token"])
@pytest.mark.parametrize("role", [{}, ROLE])
def test_a_key_with_a_line_break_is_refused_and_shown_nowhere(
    connection: Any, s3: S3Server, field: str, role: dict[str, Any]
) -> None:
    from airflow.sdk._shared.secrets_masker import redact

    invalid = f"of/{field}+{len(role)}"  # a new value each time, because masks last
    keys = {"login": KEY, "password": SECRET, "aws_session_token": TOKEN, field: f"{invalid}\n"}
    with pytest.raises(AirflowFailException, match=r"the connection 'it': aws_\w+ has a line break") as error:
        aws(**keys, **role, service_config={"sts": {"endpoint_url": s3.url}})
    assert not any(secret in str(error.value) for secret in (SECRET, TOKEN, invalid))
    assert field == "login" or redact(repr(keys[field])) == r"'***\n'"
    assert s3.requests == []


def test_a_token_that_boto3_finds_with_a_line_break_is_not_shown(
    connection: Any, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"{TOKEN}\n")
    with pytest.raises(
        AirflowFailException, match=r"aws_session_token that boto3 found \(env\) has a line break"
    ) as error:
        aws(None, None, **ROLE, service_config={"sts": {"endpoint_url": s3.url}})
    assert TOKEN not in str(error.value)


def test_a_secret_that_the_roles_service_repeats_is_not_shown(connection: Any, s3: S3Server) -> None:
    def refuse(request: Request, forward: Forward, environ: dict[str, Any]) -> Answer:
        error = f"<Error><Code>AccessDenied</Code><Message>not with {TOKEN}</Message></Error>"
        body = f"<ErrorResponse>{error}</ErrorResponse>".encode()
        return Answer("403 Forbidden", [("Content-Length", str(len(body)))], body)

    with (
        s3.interfering(refuse),
        pytest.raises(AirflowFailException, match=r"the connection 'it': .*not with \*\*\*") as error,
    ):
        aws(aws_session_token=TOKEN, **ROLE, service_config={"sts": {"endpoint_url": s3.url}})
    assert TOKEN not in str(error.value)
    with pytest.raises(AirflowFailException, match="credentials in the endpoint_url of sts") as error:
        aws(**ROLE, service_config={"sts": {"endpoint_url": f"http://ada:{SECRET}@127.0.0.1:9"}})
    assert SECRET not in str(error.value)


@pytest.mark.usefixtures("connection")
def test_a_poke_makes_one_request(s3: S3Server) -> None:
    write_deltalake("s3://lake/poked", pa.table({"a": [1]}), storage_options=LakehouseHook().storage_options("t"))

    async def looks() -> list[polling.ListedVersion]:
        poll = polling.TablePoll.of("lakehouse_default", "s3://lake/poked")
        first = await poll.look(time.monotonic())
        s3.requests.clear()
        return [first, *[await poll.look(time.monotonic()) for _ in range(3)]]

    assert [look.version for look in asyncio.run(looks())] == [0] * 4
    assert [request.verb for request in s3.requests] == ["LIST"] * 3


@pytest.mark.slow
def test_a_process_assumes_a_role_once(connection: Any, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "_KEPT_SECONDS", 0.0)
    write_deltalake("s3://lake/looked_at", pa.table({"a": [1]}), storage_options=LakehouseHook().storage_options("t"))

    def look(**change: Any) -> tuple[int, set[str]]:
        """Read the table twice; returns how often the role was assumed, and the keys of the requests."""
        extra = {**connection["extra"], **ROLE, "service_config": {"sts": {"endpoint_url": s3.url}}}
        changed = {**connection, "extra": extra} | change
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_S3", json.dumps(changed))
        s3.requests.clear()
        for _ in range(2):
            look = asyncio.run(polling.TablePoll.of("shop_s3", "s3://lake/looked_at").look(time.monotonic()))
            assert (look.version, look.error) == (0, None)
        by = {request.headers["authorization"].partition("Credential=")[2].partition("/")[0] for request in s3.requests}
        return [request.verb for request in s3.requests].count("POST"), {key for key in by if key.startswith("ASIA")}

    times, first = look()
    assert (times, len(first)) == (1, 1)
    assert look() == (0, first)
    times, second = look(password="rotated+" + SECRET)
    assert (times, len(second)) == (1, 1)
    assert first.isdisjoint(second)
    # After fifty-six minutes, keys that are valid for an hour are about to expire.
    now = time.time
    monkeypatch.setattr("lakehouse_airflow.connections.session_keys.time.time", lambda: now() + 56 * 60)
    times, third = look(password="rotated+" + SECRET)
    assert (times, len(third)) == (1, 1)
    assert third.isdisjoint(second)


def test_a_profile_is_read_at_each_use(connection: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    for secret in (SECRET, f"rotated+{SECRET}"):
        file.write_text(f"[shop]\naws_access_key_id = {KEY}\naws_secret_access_key = {secret}\n")
        credentials = aws(None, None, profile_name="shop", region_name="us-east-1")
        assert credentials == {"aws_access_key_id": KEY, "aws_secret_access_key": secret, "aws_region": "us-east-1"}


def test_a_table_on_disk_gets_no_storage_options(connection: Any, registry_file: Path) -> None:
    hook = LakehouseHook()
    options = hook.storage_options("s3://lake/t")
    assert options is not None
    assert (options["aws_secret_access_key"], options["aws_session_token"]) == (SECRET, TOKEN)
    assert hook.uri("events") == "s3://lake/events"
    assert hook.storage_options("events") == options
    assert hook.storage_options("orders") is None
    # The connection of type aws can also be passed directly.
    assert LakehouseHook("shop_s3").storage_options("s3a://lake/t") == options
    assert LakehouseHook("shop_s3").storage_options("/data/t") is None


def test_a_reference_to_another_kind_of_connection_is_refused(
    connection: Any, spark_connection: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"conn_type": "lakehouse", "extra": {"aws_conn_id": "spark_default"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_DEFAULT", json.dumps(own))
    with pytest.raises(AirflowFailException, match="'spark_default' is of type 'spark'; expected type 'aws'"):
        LakehouseHistoryOperator(task_id="t", table="s3://lake/t").execute({})


def test_a_deferred_sensor_serializes_only_the_name_of_the_connection(connection: Any, s3: S3Server) -> None:
    table = "s3://lake/awaited"
    waiting = LakehouseTableVersionSensor(
        task_id="t", table=table, lakehouse_conn_id="shop_s3", baseline_version=-1, deferrable=True, poke_interval=0.05
    )
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    _, arguments = deferred.value.trigger.serialize()
    assert arguments["lakehouse_conn_id"] == "shop_s3"
    assert SECRET not in repr(arguments)
    write_deltalake(table, pa.table({"a": [1]}), storage_options=LakehouseHook("shop_s3").storage_options(table))

    async def first_event() -> Any:
        return await asyncio.wait_for(anext(TableTrigger(**arguments).run()), 20)

    assert asyncio.run(first_event()).payload == {"version": 0, "baseline_version": -1}


# A script in front of the real spark-submit, which records its arguments.
_WATCHED = """
import json, os, sys
from pathlib import Path
seen = {"argv": sys.argv, "environment": dict(os.environ), "input": os.readlink("/proc/self/fd/0")}
with Path(os.environ["SEEN"]).open("a") as out:
    out.write(json.dumps(seen) + "\\n")
os.execv(os.environ["SPARK_SUBMIT"], [os.environ["SPARK_SUBMIT"], *sys.argv[1:]])
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_default", [True, False])
def test_an_erasure_in_s3_uses_the_connections_of_the_tables(
    connection: Any, registry_file: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch, is_default: bool
) -> None:
    body = json.loads(registry_file.read_text())
    if not is_default:
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", os.environ["AIRFLOW_CONN_LAKEHOUSE_DEFAULT"])
        nowhere = {"conn_type": "lakehouse", "extra": {"aws_endpoint_url": "http://127.0.0.1:9"}}
        monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_DEFAULT", json.dumps(nowhere))
        body["defaults"] = {"airflow": {"lakehouse_conn_id": "lake"}}
        body["tables"]["orders"]["airflow"] = {"per": "table", "lakehouse_conn_id": "shop_s3"}
    for name, table in body["tables"].items():
        table["uri"] = f"s3://lake/erasure-{is_default}/{name}"
    body["tables"]["orders"]["quarantine"] = f"s3://lake/erasure-{is_default}/orders_quarantine"
    body["ledger"] = "s3://lake/ledger"
    registry_file.write_text(json.dumps(body))
    with_key = {"conn_type": "lakehouse", "password": LEDGER_KEY, "extra": {"aws_conn_id": "shop_s3"}}
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE_LEDGER", json.dumps(with_key))
    hook = LakehouseHook()
    options = hook.storage_options("orders")
    rows = {
        "customer": {"c_custkey": [1, 2]},
        "orders": {"o_orderkey": [10, 20], "o_custkey": [1, 2]},
        "lineitem": {"l_orderkey": [10, 20, 20]},
    }
    for name, columns in rows.items():
        write_deltalake(hook.uri(name), pa.table(columns), storage_options=options)
    monkeypatch.setattr(hitl, "upsert_hitl_detail", put_hitl_detail)
    run = Run()
    located = run.locate()
    assert {name: entry["rows"] for name, entry in located.items()} == {"customer": 1, "orders": 1, "lineitem": 2}
    for name, place in run.places().items():
        DeltaTable(hook.uri(name), storage_options=options).delete(place.keys.sql())
    purged = run.purge()
    assert {name: report["files"] for name, report in purged["tables"].items()} == dict.fromkeys(rows, 1)
    report = run.report()
    assert [entry["after"]["rows"] for entry in report["tables"].values()] == [0, 0, 0]
    record = ledger().read(run.request, "record")
    assert [len(entry["files_removed"]) for entry in record["tables"]] == [1, 1, 1]
    for secret in (SECRET, LEDGER_KEY):
        assert secret not in json.dumps([located, purged, report, record, run.left], default=str)
    assert any("ledger/" in request.key and request.verb == "PUT" for request in s3.requests)
    assert not (registry_file.parent / "ledger").exists()


@contextmanager
def watched_command_lines() -> Iterator[set[bytes]]:
    """Record every command line on this machine that every user can see, during the block."""
    command_lines: set[bytes] = set()
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            for process in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    command_lines.add((process / "cmdline").read_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield command_lines
    finally:
        done.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.usefixtures("airflow_db", "spark_connection")
def test_a_dag_on_tables_in_s3_does_not_show_the_secret(
    registry_file: Path,
    connection: Any,
    s3: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    body = json.loads(registry_file.read_text())
    body["tables"]["lineitem"] = {"uri": "s3://lake/lineitem", "maintenance": {"engine": "spark"}}
    registry_file.write_text(json.dumps(body))
    options = LakehouseHook().storage_options("lineitem")
    for number in range(3):
        rows = pa.table({"l_orderkey": [number]})
        write_deltalake("s3://lake/lineitem", rows, mode="append", storage_options=options)
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\n{_WATCHED}")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=os.pathsep)
    monkeypatch.setenv("SPARK_SUBMIT", str(Path(sys.executable).parent / "spark-submit"))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.jsonl"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    s3.requests.clear()

    with watched_command_lines() as command_lines:
        run = run_dag("lakehouse_maintenance", {"tables": ["lineitem"]})
    assert run.state == "success", run.states
    optimize = run.xcom("summary")["lineitem"]["optimize"]
    assert (optimize["version"], optimize["measured"]["files_removed"]) == (3, 3)
    opened = DeltaTable("s3://lake/lineitem", storage_options=options)
    assert (opened.version(), len(opened.files())) == (3, 1)
    # With these credentials only.
    assert s3.requests
    assert all(f"Credential={KEY}/" in request.headers["authorization"] for request in s3.requests)
    assert {request.headers["x-amz-security-token"] for request in s3.requests} == {TOKEN}

    assert any(b"spark_jobs/maintain.py" in line for line in command_lines)
    (submission,) = map(json.loads, (tmp_path / "seen.jsonl").read_text().splitlines())
    names = ("orders-file", "storage-options-file", "commit-metadata-file")
    assert submission["argv"][-6:] == [text for name in names for text in (f"--{name}", f"private:{name}")]
    assert submission["input"].startswith("/memfd:")
    assert list(scratch.iterdir()) == []
    # In this test the connection comes from the environment, the only place that may contain it.
    assert submission["environment"].pop("AIRFLOW_CONN_SHOP_S3")
    printed = capfd.readouterr()
    assert "Spark-Submit cmd: " in printed.out + printed.err
    files = home_files()
    assert str(HOME / "airflow.db") in files  # XComs, rendered fields, links, the DAG itself
    places = {
        "log": (printed.out + printed.err).encode(),
        "command lines": b"\n".join(command_lines),
        "arguments, environment": json.dumps(submission).encode(),
        **files,
    }
    for secret in (SECRET, TOKEN):
        for written in (secret.encode(), json.dumps(secret)[1:-1].replace("/", "\\/").encode()):
            assert [place for place, text in places.items() if written in text] == []
