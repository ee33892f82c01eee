"""A small lakehouse for an Airflow of its own: two tables, files to load, and a person to erase."""

from __future__ import annotations

import json

import pyarrow as pa
from deltalake import write_deltalake

from demo.home import Home
from demo.users import OFFICER
from tests.log_builder import field, struct

#: The person whose rows the tests erase.
CUSTOMER = 4711


def write_lakehouse(home: Home) -> None:
    """The registry, the table ``customer`` with many small files, and files of ``orders`` in a landing folder."""
    folder = home.registry.parent
    folder.mkdir(parents=True)
    fields = [field("o_orderkey", "long"), field("o_custkey", "long"), field("o_status", "string")]
    (folder / "orders.schema.json").write_text(json.dumps(struct(*fields)))
    rule = {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "o_status", "value_set": ["open", "paid"]},
    }
    rule["meta"] = {"rule_id": "known_status"}
    (folder / "orders.suite.json").write_text(json.dumps({"name": "orders", "expectations": [rule]}))
    home.registry.write_text(json.dumps(_registry(home)))
    _land_orders(home)
    for file in range(40):
        keys = [number * 7919 % 100_000 for number in range(file * 2500, file * 2500 + 2500)]
        columns = {
            "c_custkey": pa.array(keys, pa.int64()),
            "c_name": [f"Customer {key:06}" for key in keys],
            "c_segment": [("BUILDING", "MACHINERY", "FURNITURE")[key % 3] for key in keys],
        }
        write_deltalake(home.tables / "customer", pa.table(columns), mode="append")


def _registry(home: Home) -> dict[str, object]:
    return {
        "defaults": {
            "vacuum": {"retention_hours": 0, "enforce_retention": False},
            "maintenance": {"payback_queries": 1_000_000},
        },
        "records": str(home.records),
        "tables": {
            "customer": {
                "uri": str(home.tables / "customer"),
                "cluster_by": ["c_custkey"],
                "target_file_size": 128 * 1024,
            },
            "orders": {
                "uri": str(home.tables / "orders"),
                "source": {
                    "name": "shop_orders",
                    "landing": str(home.landing / "orders"),
                    "format": "csv",
                    "files_per_batch": 2,
                    "settle_seconds": 0,
                },
                "schema": "orders.schema.json",
                "suite": "orders.suite.json",
                "quarantine": str(home.tables / "orders_quarantine"),
            },
        },
        "ledger": str(home.ledger),
        "subjects": {
            "customer": {
                "id_type": "long",
                "approvers": [OFFICER],
                "rows": [{"table": "customer", "key": "c_custkey"}, {"table": "orders", "key": "o_custkey"}],
            }
        },
    }


def _land_orders(home: Home) -> None:
    """Four files of 500 orders. In each, ten orders have an unknown status; six of all are the person's."""
    landing = home.landing / "orders"
    landing.mkdir(parents=True)
    for file in range(4):
        lines = ["o_orderkey,o_custkey,o_status"]
        for number in range(500):
            customer = CUSTOMER if number < 2 and file < 3 else number
            status = "lost" if number % 50 == 49 else ("open", "paid")[number % 2]
            lines.append(f"{file * 500 + number},{customer},{status}")
        (landing / f"2026-11-{file + 1:02}.csv").write_text("\n".join(lines) + "\n")
