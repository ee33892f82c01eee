"""The lakehouse of the demo: schemas, quality rules, and the registry, a JSON file that describes the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from demo.home import Home
from demo.users import OFFICER

KIB = 1024
# Small on purpose: at production size, these few rows would fit one file, and there would be no files to skip.
TARGET_FILE_SIZE = {"orders": 400 * KIB, "lineitem": 600 * KIB, "customer": 4096 * KIB}
# The source files are not sorted by these columns, so only a Z-order makes files skippable.
CLUSTER_BY = {"orders": ["o_custkey", "o_orderdate"], "lineitem": ["l_partkey", "l_shipdate"], "customer": []}
# A selective query for each Z-order column.
SELECTIVE = {
    "orders": {"o_custkey": "o_custkey = 7501", "o_orderdate": "o_orderdate = DATE '1995-06-17'"},
    "lineitem": {"l_partkey": "l_partkey = 10007", "l_shipdate": "l_shipdate = DATE '1995-06-17'"},
}
KEYS = {"orders": ["o_orderkey"], "lineitem": ["l_orderkey", "l_linenumber"], "customer": ["c_custkey"]}
# A version for every file or two, as if files were loaded when they arrive: this gives a history and small files.
FILES_PER_BATCH = {"orders": 2, "lineitem": 1, "customer": 1}

_MONEY = "decimal(15,2)"
COLUMNS: dict[str, dict[str, str]] = {
    "orders": {
        "o_orderkey": "long",
        "o_custkey": "long",
        "o_orderstatus": "string",
        "o_totalprice": _MONEY,
        "o_orderdate": "date",
        "o_orderpriority": "string",
        "o_clerk": "string",
        "o_shippriority": "integer",
        "o_comment": "string",
    },
    "lineitem": {
        "l_orderkey": "long",
        "l_partkey": "long",
        "l_suppkey": "long",
        "l_linenumber": "integer",
        "l_quantity": _MONEY,
        "l_extendedprice": _MONEY,
        "l_discount": _MONEY,
        "l_tax": _MONEY,
        "l_returnflag": "string",
        "l_linestatus": "string",
        "l_shipdate": "date",
        "l_commitdate": "date",
        "l_receiptdate": "date",
        "l_shipinstruct": "string",
        "l_shipmode": "string",
        "l_comment": "string",
    },
    "customer": {
        "c_custkey": "long",
        "c_name": "string",
        "c_address": "string",
        "c_nationkey": "integer",
        "c_phone": "string",
        "c_acctbal": _MONEY,
        "c_mktsegment": "string",
        "c_comment": "string",
    },
}


def _rule(rule: str, kind: str, **arguments: object) -> dict[str, Any]:
    return {"type": kind, "kwargs": arguments, "meta": {"rule_id": rule}}


RULES: dict[str, list[dict[str, Any]]] = {
    "orders": [
        _rule("price_not_negative", "expect_column_values_to_be_between", column="o_totalprice", min_value=0),
        _rule("known_status", "expect_column_values_to_be_in_set", column="o_orderstatus", value_set=["F", "O", "P"]),
    ],
    "lineitem": [
        _rule("quantity_1_to_50", "expect_column_values_to_be_between", column="l_quantity", min_value=1, max_value=50),
        _rule(
            "discount_at_most_10_percent",
            "expect_column_values_to_be_between",
            column="l_discount",
            min_value=0,
            max_value=0.1,
        ),
        _rule(
            "known_return_flag", "expect_column_values_to_be_in_set", column="l_returnflag", value_set=["A", "N", "R"]
        ),
        _rule(
            "received_after_shipped",
            "expect_column_pair_values_a_to_be_greater_than_b",
            column_A="l_receiptdate",
            column_B="l_shipdate",
            or_equal=True,
        ),
    ],
    "customer": [
        _rule("customer_not_empty", "expect_table_row_count_to_be_between", min_value=1),
        _rule(
            "phone_in_tpch_form",
            "expect_column_values_to_match_regex",
            column="c_phone",
            regex=r"^\d\d-\d{3}-\d{3}-\d{4}$",
        ),
    ],
}
# The column of each rule, as the quarantine names it.
RULE_COLUMNS = {
    rule["meta"]["rule_id"]: rule["kwargs"].get("column") or rule["kwargs"].get("column_A")
    for rules in RULES.values()
    for rule in rules
}

# The report: sales by month.
REPORT_SQL = """\
select
    year(l_shipdate) as ship_year,
    month(l_shipdate) as ship_month,
    l_returnflag,
    count(*) as line_items,
    sum(l_quantity) as quantity,
    sum(l_extendedprice * (1 - l_discount)) as revenue
from lineitem
group by 1, 2, 3
order by 1, 2, 3
"""


def quarantine_of(table: str) -> str:
    return f"{table}_quarantine"


def write_registry(home: Home) -> None:
    """Write the registry, with a schema and a suite for each table and the report's query beside it."""
    folder = home.registry.parent
    folder.mkdir(parents=True, exist_ok=True)
    for table in COLUMNS:
        _write_json(folder / f"{table}.schema.json", _schema(table))
        _write_json(folder / f"{table}.suite.json", {"name": table, "expectations": RULES[table]})
    (folder / "report.sql").write_text(REPORT_SQL)
    _write_json(home.registry, registry(home))


def registry(home: Home) -> dict[str, Any]:
    """The registry as JSON; paths are relative to its folder."""
    return {
        # The demo has no readers of older versions, and the default of seven days would keep every file. Its tables are
        # so small that deleting some old files would never pay.
        "defaults": {
            "vacuum": {"retention_hours": 0, "enforce_retention": False},
            "maintenance": {"payback_queries": 1_000_000},
        },
        "records": str(home.records),
        "tables": {table: _table(home, table) for table in COLUMNS},
        "subjects": {
            "customer": {
                "id_type": "long",
                "approvers": [OFFICER],
                "rows": [
                    {"table": "customer", "key": "c_custkey"},
                    {"table": "orders", "key": "o_custkey"},
                    {
                        "table": "lineitem",
                        "key": "l_orderkey",
                        "through": {"table": "orders", "key": "o_custkey", "select": "o_orderkey"},
                    },
                ],
            }
        },
        "ledger": str(home.ledger),
        "report": {"tables": ["lineitem"], "sql": "report.sql", "output": home.table_location("sales_by_month")},
    }


def _table(home: Home, table: str) -> dict[str, Any]:
    return {
        "uri": home.table_location(table),
        "source": {
            "name": f"tpch_{table}",
            "landing": home.landing_location(table),
            "format": "csv",
            "delimiter": ",",
            "encoding": "utf-8",
            "files_per_batch": FILES_PER_BATCH[table],
            "settle_seconds": 1,
        },
        "schema": f"{table}.schema.json",
        "suite": f"{table}.suite.json",
        "quarantine": home.table_location(quarantine_of(table)),
        "cluster_by": CLUSTER_BY[table],
        "target_file_size": TARGET_FILE_SIZE[table],
    }


def _schema(table: str) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": name not in KEYS[table], "metadata": {}}
            for name, kind in COLUMNS[table].items()
        ],
    }


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
