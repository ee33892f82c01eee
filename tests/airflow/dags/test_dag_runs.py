"""The DAGs with real Airflow, real Spark and real tables; delta-rs reads the results."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.airflow.api_runs import ApiRun
from tests.airflow.dag_runs import api_client, let_run, newest_event, released_runs, run_answered_dag, run_dag
from tests.airflow.dags.loading import load_orders
from tests.airflow.erasure_runs import ledger
from tests.peers import parquet_files, read_delta_rs
from tests.table_builder import longs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("airflow_db", "spark_connection")]


def write_shop(registry_file: Path) -> Path:
    """Three customers with two orders each and one line item for each order, in two commits for each table."""
    tables = registry_file.parent / "tables"
    for part in (0, 1):
        customers = [1, 2, 3] if part == 0 else [4]
        orders = [10 * part + customer for customer in (1, 2, 3)]
        write_deltalake(tables / "customer", longs(c_custkey=customers), mode="append")
        write_deltalake(
            tables / "orders",
            longs(o_orderkey=orders, o_custkey=[1, 2, 3]),
            mode="append",
        )
        write_deltalake(tables / "lineitem", longs(l_orderkey=orders), mode="append")
    return tables


def column(table: Path, name: str) -> list[int]:
    return sorted(read_delta_rs(table)[name].to_pylist())


def on_disk(table: Path, name: str) -> list[int]:
    return sorted(value for file in parquet_files(table) for value in pa.parquet.read_table(file)[name].to_pylist())


def test_new_rows_are_reported_once(registry_file: Path) -> None:
    let_run("lakehouse_report")
    earlier, event = len(released_runs("lakehouse_report")), newest_event()  # of other tests
    latest = load_orders(registry_file)
    change = {"table": "orders", "from_version": -1, "to_version": latest}
    assert released_runs("lakehouse_report", after=event)[earlier:] == [("asset_triggered", [change])]
    again = run_dag("lakehouse_ingest")
    assert again.xcom("publish") == {}
    assert again.asset_events() == {}
    assert len(released_runs("lakehouse_report")) == earlier + 1

    report = run_dag("lakehouse_report")
    assert report.state == "success"
    assert report.xcom("cursor") == -1
    assert report.xcom("new_version") == {"table": "orders", "version": latest, "baseline_version": -1}
    made = DeltaTable(str(registry_file.parent / "tables" / "orders_by_customer"))
    assert made.to_pyarrow_table().sort_by("o_custkey").to_pydict() == {"o_custkey": [7, 8], "orders": [2, 1]}
    assert made.transaction_version("lakehouse_report") == latest


def test_a_refused_file_fails_one_run_and_the_rest_is_published(
    registry_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    landing = registry_file.parent / "landing" / "orders"
    (landing / "1.csv").write_text("o_orderkey,o_custkey\n1,7\n")
    (landing / "2.csv").write_text("o_orderkey,something_else\n2,7\n")
    loaded = run_dag("lakehouse_ingest")
    assert loaded.state == "failed"
    assert loaded.states["ingest[0]"] == "failed"
    assert loaded.states["all_loaded"] == "upstream_failed"
    assert loaded.states["publish"] == "success"
    assert column(registry_file.parent / "tables" / "orders", "o_orderkey") == [1]
    assert list(loaded.asset_events()) == [f"file://{registry_file.parent}/tables/orders"]
    assert loaded.xcom("ingest", 0)["table"].endswith("tables/orders")

    (landing / "3.csv").write_text("o_orderkey,o_custkey\n3,7\n")
    capfd.readouterr()
    next_run = run_dag("lakehouse_ingest")
    assert next_run.state == "success", next_run.states
    result = next_run.xcom("ingest", 0)
    assert (result["files_loaded"], result["files_refused"]) == (1, [])
    assert [refusal["file"] for refusal in result["files_refused_earlier"]] == ["2.csv"]
    assert "an earlier run has refused a file that is still there: 2.csv does not fit" in capfd.readouterr().out
    assert column(registry_file.parent / "tables" / "orders", "o_orderkey") == [1, 3]


def test_more_tables_than_airflow_maps_are_loaded(registry_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
    body = json.loads(registry_file.read_text())
    for name in ("a", "b"):
        source = {**body["tables"]["orders"]["source"], "name": name, "landing": f"landing/{name}"}
        uris = {"uri": f"tables/{name}", "quarantine": f"tables/{name}_quarantine"}
        body["tables"][name] = {**body["tables"]["orders"], **uris, "source": source}
    registry_file.write_text(json.dumps(body))
    for name in ("a", "b", "orders"):
        landing = registry_file.parent / "landing" / name
        landing.mkdir(exist_ok=True)
        (landing / "1.csv").write_text("o_orderkey,o_custkey\n1,7\n")
    (registry_file.parent / "landing" / "a" / "1.csv").write_text("o_orderkey\n1\n")
    run = run_dag("lakehouse_ingest")
    assert [run.states[name] for name in ("ingest[0]", "ingest[1]", "ingest_2[0]")] == ["failed", "success", "success"]
    assert (run.state, run.states["all_loaded"]) == ("failed", "upstream_failed")
    assert (run.xcom("tables"), run.xcom("tables_2")) == (["a", "b"], ["orders"])
    assert (list(run.xcom("publish")), list(run.xcom("publish_2"))) == (["b"], ["orders"])
    only = run_dag("lakehouse_ingest", {"tables": ["orders"]})
    assert (only.state, only.xcom("tables"), only.xcom("tables_2")) == ("success", ["orders"], [])


def test_maintenance_continues_after_one_table_fails(registry_file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tables = write_shop(registry_file)
    (tables / "customer" / "_delta_log" / f"{1:020d}.json").write_text('{"add": {"pa')
    before = column(tables / "orders", "o_orderkey")

    run = run_dag("lakehouse_maintenance", {"tables": ["orders", "customer"]})
    assert sorted(order["table"] for work in run.xcom("plan") for order in work["orders"]) == ["customer", "orders"]
    assert run.state == "failed"
    assert sorted(state for name, state in run.states.items() if name.startswith("maintain[")) == ["failed", "success"]
    assert (run.states["summary"], run.states["all_maintained"]) == ("success", "upstream_failed")
    orders = run.xcom("summary")["orders"]
    assert list(orders) == ["z_order", "vacuum"]  # z_order merges the small files too
    assert orders["z_order"]["version"] == 2
    assert [orders["z_order"]["measured"][name] for name in ("files_removed", "files_added")] == [2, 1]
    assert orders["vacuum"]["measured"]["files_removed"] == 2
    log = capfd.readouterr().out
    assert "AirflowFailException: LogCorruptedError: " in log
    assert "Py4J" not in log
    assert column(tables / "orders", "o_orderkey") == before
    live = {Path(file).resolve() for file in DeltaTable(str(tables / "orders")).file_uris()}
    assert parquet_files(tables / "orders") == live
    assert len(live) == 1
    assert run.asset_events() == {}


def test_an_approved_erasure_leaves_no_row_on_disk(registry_file: Path) -> None:
    tables = write_shop(registry_file)
    run, _ = run_answered_dag("lakehouse_erasure_customer", {"customer_id": 2}, "approve", "Approve")
    assert run.state == "success", run.states
    for table, name, left in (
        ("customer", "c_custkey", [1, 3, 4]),
        ("orders", "o_orderkey", [1, 3, 11, 13]),
        ("lineitem", "l_orderkey", [1, 3, 11, 13]),
    ):
        assert column(tables / table, name) == left
        assert not {2, 12} & set(on_disk(tables / table, name))
    report = run.xcom("report")
    assert (report["subject"], report["request"]) == ("customer", run.xcom("locate")["request"])
    assert {table: counts["before"]["rows"] for table, counts in report["tables"].items()} == {
        "customer": 1,
        "orders": 2,
        "lineitem": 2,
    }
    assert {counts["after"]["rows"] for counts in report["tables"].values()} == {0}
    assert set(run.asset_events()) == {f"file://{tables}/{table}" for table in ("customer", "orders", "lineitem")}


def write_refused(registry_file: Path) -> None:
    """Put into quarantine order 50 of customer 2, order 60 of customer 1, raw records, and line items of both."""
    body = json.loads(registry_file.read_text())
    body["tables"]["lineitem"]["quarantine"] = "tables/lineitem_quarantine"
    registry_file.write_text(json.dumps(body))
    tables = registry_file.parent / "tables"
    write_deltalake(tables / "lineitem", longs(l_orderkey=[50, 50, 60]), mode="append")
    for table, columns in (
        ("orders", {"o_orderkey": ["50", "60", None], "o_custkey": ["2", "1", None]}),
        ("lineitem", {"l_orderkey": ["50", "60", None, None]}),
    ):
        count = len(next(iter(columns.values())))
        raw = [None, None, f"70,{'2' if table == 'orders' else '9'},surplus", "50|half"][:count]
        texts = columns | {
            "_source": ["shop"] * count,
            "_file": ["1.csv"] * count,
            "_column": [None] * count,
            "_rule": [None] * count,
            "_raw": raw,
        }
        rows = {name: pa.array(values, pa.string()) for name, values in texts.items()}
        rows["_line"] = pa.array(range(2, 2 + count), pa.int64())
        write_deltalake(tables / f"{table}_quarantine", pa.table(rows))


@pytest.mark.parametrize("erase_mentions", [False, True])
def test_line_items_of_an_order_in_quarantine_are_reached(registry_file: Path, erase_mentions: bool) -> None:
    tables = write_shop(registry_file)
    write_refused(registry_file)
    conf = {"customer_id": 2, "erase_mentions": erase_mentions}
    run, _ = run_answered_dag("lakehouse_erasure_customer", conf, "approve", "Approve")
    assert run.state == "success", run.states
    assert column(tables / "lineitem", "l_orderkey") == [1, 3, 11, 13, 60]
    assert not {2, 12, 50} & set(on_disk(tables / "lineitem", "l_orderkey"))
    for table, key in (("orders_quarantine", "o_orderkey"), ("lineitem_quarantine", "l_orderkey")):
        assert read_delta_rs(tables / table)[key].drop_null().to_pylist() == ["60"]
    raw_texts = [
        text
        for table in ("orders_quarantine", "lineitem_quarantine")
        for file in parquet_files(tables / table)
        for text in pa.parquet.read_table(file)["_raw"].drop_null().to_pylist()
    ]
    assert sorted(raw_texts) == (["70,9,surplus"] if erase_mentions else ["50|half", "70,2,surplus", "70,9,surplus"])

    plan = ledger().read(run.xcom("locate")["request"], "plan")
    counts = {entry["table"]: entry["unattributed"] for entry in plan["tables"]}
    assert [counts["lineitem_quarantine"][what] for what in ("records", "mentions", "erased")] == [2, 1, erase_mentions]
    assert [counts["orders_quarantine"][what] for what in ("records", "mentions")] == [1, 1]
    assert counts["lineitem"] is None
    report = run.xcom("report")
    left = {
        "lineitem_quarantine": {"records": 1 if erase_mentions else 2, "mentions": 0 if erase_mentions else 1},
        "orders_quarantine": {"records": 1, "mentions": 1},
    }
    if erase_mentions:
        del left["orders_quarantine"]
    assert report["unattributed"] == left
    notes = " ".join(report["notes"])
    assert "records without a readable key are not erased" in notes
    assert "Landing files are not erased" in notes
    assert "in the predicate of a delete without a label" in notes


def test_the_question_counts_records_without_a_readable_key(registry_file: Path) -> None:
    write_shop(registry_file)
    write_refused(registry_file)
    _, text = run_answered_dag("lakehouse_erasure_customer", {"customer_id": 2}, "approve", "Reject")
    assert "* lineitem: 4 rows in 2 files" in text or "* lineitem: 4 rows in 3 files" in text
    assert "lineitem_quarantine also has 2 records without a readable key: WHERE `` `_raw` IS" in text
    assert "1 of them hold one of the person's keys as a field; these will be kept." in text
    assert "1.csv" not in text


def test_a_rejected_erasure_deletes_nothing(registry_file: Path) -> None:
    tables = write_shop(registry_file)
    run, _ = run_answered_dag("lakehouse_erasure_customer", {"customer_id": 2}, "approve", "Reject")
    assert run.states["delete"] == run.states["purge"] == "skipped"
    assert column(tables / "customer", "c_custkey") == [1, 2, 3, 4]
    assert run.asset_events() == {}


def test_marking_the_approval_as_success_deletes_nothing(registry_file: Path) -> None:
    tables = write_shop(registry_file)
    files = parquet_files(tables)
    # The delete is marked too, so the purge has to check for itself.
    for marked in ("approve", "approve|delete"):
        run = run_dag("lakehouse_erasure_customer", {"customer_id": 2}, mark_success_pattern=marked)
        assert run.state == "failed"
        assert "success" not in {run.states["purge"], run.states["report"]}
    assert column(tables / "orders", "o_custkey") == [1, 1, 2, 2, 3, 3]
    assert parquet_files(tables) == files


def test_an_invalid_customer_id_is_refused_before_any_task_runs(registry_file: Path) -> None:
    from airflow.exceptions import ParamValidationError

    write_shop(registry_file)
    for value in ("2", "", "2 or 1=1", 0):
        with pytest.raises(ParamValidationError):
            run_dag("lakehouse_erasure_customer", {"customer_id": value})
    with pytest.raises(ParamValidationError):
        run_dag("lakehouse_erasure_customer")


def test_a_missing_table_fails_with_a_table_not_found_error(
    registry_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = run_dag("lakehouse_erasure_customer", {"customer_id": 2})
    assert run.states["locate"] == "failed"
    assert run.states["delete"] == "upstream_failed"
    assert "TableNotFoundError: " in capfd.readouterr().out


def test_an_answer_that_airflow_refuses_fails_the_run(registry_file: Path) -> None:
    tables = write_shop(registry_file)
    with pytest.raises(AssertionError, match=r"(?s)Perhaps"):
        run_answered_dag("lakehouse_erasure_customer", {"customer_id": 2}, "approve", "Perhaps")
    assert column(tables / "customer", "c_custkey") == [1, 2, 3, 4]


def test_the_wait_for_a_question_ends_with_the_run(registry_file: Path) -> None:
    with pytest.raises(AssertionError, match="asked nothing before its run was over"):
        run_answered_dag("lakehouse_erasure_customer", {"customer_id": 2}, "approve", "Approve")


def test_the_open_question_of_an_earlier_run_stays_open(registry_file: Path) -> None:
    write_shop(registry_file)
    let_run("lakehouse_erasure_customer")
    earlier = ApiRun(api_client(), "lakehouse_erasure_customer", {"customer_id": 1})
    assert earlier.work().states["approve"] == "awaiting_input"
    run, _ = run_answered_dag("lakehouse_erasure_customer", {"customer_id": 2}, "approve", "Reject")
    assert run.states["delete"] == "skipped"
    assert earlier.work().states["approve"] == "awaiting_input"
