"""A run of the DAG that loads files."""

from pathlib import Path

from deltalake import DeltaTable

from tests.airflow.dag_runs import run_dag
from tests.peers import read_delta_rs


def load_orders(registry_file: Path) -> int:
    """Load the files of orders in the landing folder, and return the version of their table."""
    tables = registry_file.parent / "tables"
    landing = registry_file.parent / "landing" / "orders"
    (landing / "1.csv").write_text("o_orderkey,o_custkey\n1,7\n2,7\n3,8\n4,\n")

    loaded = run_dag("lakehouse_ingest")
    assert loaded.state == "success"
    assert loaded.xcom("tables") == ["orders"]
    assert sorted(read_delta_rs(tables / "orders")["o_orderkey"].to_pylist()) == [1, 2, 3]
    assert len(read_delta_rs(tables / "orders_quarantine")) == 1
    run = {"dag_id": "lakehouse_ingest", "run_id": loaded.run_id, "task_id": "ingest", "map_index": 0, "try_number": 1}
    for name in ("orders", "orders_quarantine"):
        assert [commit["airflow"] for commit in DeltaTable(str(tables / name)).history()] == [run]
    latest: int = DeltaTable(str(tables / "orders")).version()
    assert loaded.xcom("ingest", 0)["version"] == latest
    change = {"table": "orders", "from_version": -1, "to_version": latest}
    assert loaded.asset_events() == {f"file://{tables / 'orders'}": change}
    link = loaded.xcom("ingest", 0, key="_link_TableVersionLink")
    assert link.endswith(f"/lakehouse/tables/orders/versions/{latest}")
    return latest
