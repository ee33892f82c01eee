"""The arguments of operators are templates, and rendered texts are read as the values that they mean."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from lakehouse_airflow import operators
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.base.job_operator import _PARAMETERS as JOB_PARAMETERS
from lakehouse_airflow.operators.base.job_operator import SubmitOperator
from lakehouse_airflow.operators.base.rendered import read_rendered
from lakehouse_airflow.operators.base.table_operator import LakehouseTableOperator
from lakehouse_airflow.operators.change_rows import LakehouseDeleteRowsOperator, LakehouseUpdateRowsOperator
from lakehouse_airflow.operators.cleanup import LakehouseCleanupOperator
from lakehouse_airflow.operators.history import LakehouseHistoryOperator
from lakehouse_airflow.operators.maintenance.plan import _PARAMETERS as PLAN_PARAMETERS
from lakehouse_airflow.operators.maintenance.plan import LakehousePlanOperator
from lakehouse_airflow.operators.optimize import LakehouseOptimizeOperator
from lakehouse_airflow.operators.report import LakehouseAggregateOperator
from lakehouse_airflow.operators.vacuum import LakehouseVacuumOperator
from lakehouse_airflow.operators.z_order import LakehouseZOrderOperator
from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.catalogue import VACUUM
from lakehouse_lib.catalogue.operation import Parameter
from lakehouse_lib.command_options import value_of_text
from lakehouse_lib.errors import InvalidArgumentError

#: Values against edited XComs, which no param may change; a path, which would be read as a file of SQL; ids of tasks;
#: arguments of erasures, so that no rendered field shows a person.
NOT_TEMPLATED = {"registered_only", "sql_file", "approved_by", "located_by", "subject", "tables"}


def own_operators() -> list[type[BaseOperator]]:
    for module in pkgutil.walk_packages(operators.__path__, f"{operators.__name__}."):
        importlib.import_module(module.name)
    classes, pending = set(), [SubmitOperator, LakehouseTableOperator, LakehousePlanOperator]
    while pending:
        cls: Any = pending.pop()
        pending += cls.__subclasses__()
        if cls.__module__.startswith(operators.__name__):
            classes.add(cls)
    return sorted(classes, key=lambda each: each.__name__)


@pytest.mark.parametrize("operator", own_operators())
def test_every_argument_is_templated(operator: type[BaseOperator]) -> None:
    arguments = {
        name
        for cls in operator.__mro__
        if cls.__module__.startswith("lakehouse_airflow.")
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if parameter.kind == inspect.Parameter.KEYWORD_ONLY
    }
    assert arguments - NOT_TEMPLATED <= set(operator.template_fields)


def rendered(operator: BaseOperator, **params: Any) -> Any:
    operator.render_template_fields({"params": params})
    return operator


#: ``run`` of these operators reads the text itself.
READ_BY_RUN = {("LakehouseRepairOperator", "dry_run"), ("LakehousePinVersionOperator", "version")}


@pytest.mark.parametrize("operator", own_operators())
def test_every_flag_and_number_is_read_from_rendered_text(operator: type[BaseOperator]) -> None:
    """Otherwise a rendered ``False`` would be a text that is true."""
    own = (*getattr(operator, "parameters", ()), *getattr(operator, "job_parameters", ()))
    read = {parameter.name for parameter in (*own, *JOB_PARAMETERS, *PLAN_PARAMETERS)}
    unread = {
        name
        for cls in operator.__mro__
        if cls.__module__.startswith("lakehouse_airflow.")
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
        if name in operator.template_fields and re.search(r"^(bool|int|float)\b", str(parameter.annotation))
        if name not in read and (operator.__name__, name) not in READ_BY_RUN
    }
    assert unread == set()


@pytest.mark.parametrize("text", ["None", ""])
def test_a_template_without_a_value_means_the_default_in_the_registry(registry_file: Path, text: str) -> None:
    vacuum = LakehouseVacuumOperator(
        task_id="t", table="orders", enforce_retention=text, full=text, files_per_second=text, retention_hours=text
    )
    read_rendered(vacuum, vacuum.parameters)
    assert (vacuum.enforce_retention, vacuum.full, vacuum.files_per_second, vacuum.retention_hours) == (None,) * 4
    vacuum = LakehouseVacuumOperator(task_id="t", table="orders", enforce_retention="False", files_per_second="0.5")
    read_rendered(vacuum, vacuum.parameters)
    assert (vacuum.enforce_retention, vacuum.files_per_second) == (False, 0.5)
    cleanup = LakehouseCleanupOperator(task_id="t", table="orders", enforce_retention="false")
    read_rendered(cleanup, cleanup.parameters)
    assert cleanup.enforce_retention is False


def test_rendered_texts_are_values(registry_file: Path) -> None:
    optimize = rendered(
        LakehouseOptimizeOperator(
            task_id="t",
            table="{{ params.table }}",
            target_file_size="{{ params.size }}",
            where="day = '{{ params.day }}'",
            spark_conf={"spark.x": "{{ params.day }}"},
            spark_conn_id="spark_{{ params.day }}",
        ),
        table="orders",
        size="64mb",
        day="2026-01-31",
    )
    read_rendered(optimize, optimize.job_parameters)
    assert (optimize.table, optimize.target_file_size, optimize.where) == ("orders", 64 << 20, "day = '2026-01-31'")
    assert (optimize.spark_conf, optimize.spark_conn_id) == ({"spark.x": "2026-01-31"}, "spark_2026-01-31")

    z_order = rendered(
        LakehouseZOrderOperator(task_id="t", table="orders", columns="{{ params.columns }}", full="{{ params.full }}"),
        columns="o_custkey, o_orderkey",
        full=False,
    )
    read_rendered(z_order, z_order.job_parameters)
    assert z_order.arguments(LakehouseHook())[-1] == "--columns=o_custkey,o_orderkey"

    vacuum = LakehouseVacuumOperator(
        task_id="t",
        table="orders",
        retention_hours="{{ params.hours }}",
        dry_run="{{ params.dry_run }}",
        keep_versions="{{ params.keep }}",
        full="{{ params.full }}",
    )
    rendered(vacuum, hours=240, dry_run=True, keep="3,7", full=None)
    read_rendered(vacuum, VACUUM.parameters)
    assert (vacuum.retention_hours, vacuum.dry_run, vacuum.keep_versions) == (240.0, True, (3, 7))


def test_operators_read_rendered_texts(registry_file: Path) -> None:
    table = registry_file.parent / "tables" / "orders"
    for number in range(3):
        write_deltalake(table, pa.table({"o_custkey": [number]}), mode="append")
    history = rendered(
        LakehouseHistoryOperator(task_id="t", table="orders", limit="{{ params.limit }}"),
        limit=2,
    )
    assert len(history.execute({})) == 2
    update = LakehouseUpdateRowsOperator(
        task_id="t",
        table="orders",
        updates="{{ params.updates | tojson }}",
        predicate="o_custkey = 1",
    )
    assert rendered(update, updates={"o_custkey": "7"}).execute({})["metrics"]["numUpdatedRows"] == 1
    dry = LakehouseVacuumOperator(task_id="t", table="orders", dry_run="{{ params.dry_run }}")
    assert rendered(dry, dry_run=True).execute({})["dry_run"] is True
    wrong = LakehouseVacuumOperator(task_id="t", table="orders", dry_run="perhaps")
    with pytest.raises(AirflowFailException, match="dry_run is 'perhaps'; expected True or False"):
        wrong.execute({})


@pytest.mark.parametrize("text", ["None", ""])
def test_a_history_without_a_rendered_limit_has_the_default(text: str) -> None:
    history = LakehouseHistoryOperator(task_id="t", table="orders", limit=text)
    read_rendered(history, history.parameters)
    assert history.limit == LakehouseHistoryOperator(task_id="t", table="orders").limit == 20


@pytest.mark.parametrize("inputs", ["orders, lineitem", ["orders", "{{ params.inputs }}"], ""])
def test_the_tables_of_a_report_may_be_rendered(registry_file: Path, inputs: Any) -> None:
    (registry_file.parent / "report.sql").write_text("SELECT 1")
    for name in ("orders", "lineitem"):
        write_deltalake(registry_file.parent / "tables" / name, pa.table({"id": [1]}))
    report = LakehouseAggregateOperator(
        task_id="t",
        table="lineitem",
        inputs="{{ params.inputs }}" if isinstance(inputs, str) else inputs,
        sql_file=str(registry_file.parent / "report.sql"),
        app_id="report",
        app_version=0,
        engine="arrow",
        registered_only=True,
    )
    rendered(report, inputs=inputs if isinstance(inputs, str) else "lineitem")
    task = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1)
    # Only Spark runs a query, so the job ends when all arguments are checked.
    with pytest.raises(AirflowFailException, match="only Spark can run the job" if inputs else "inputs is empty"):
        report.execute({"ti": task})
    assert report.opened_tables() == ["lineitem", *(("orders", "lineitem") if inputs else ())]


def test_a_condition_may_be_in_a_file(tmp_path: Path, registry_file: Path) -> None:
    table = registry_file.parent / "tables" / "orders"
    write_deltalake(table, pa.table({"o_custkey": [1, 2]}))
    (tmp_path / "old_orders.sql").write_text("o_custkey = {{ params.customer }}")
    with DAG("d", template_searchpath=str(tmp_path)):
        delete = LakehouseDeleteRowsOperator(task_id="t", table="orders", predicate="old_orders.sql")
    delete.resolve_template_files()
    rendered(delete, customer=2).execute({})
    assert DeltaTable(table).to_pyarrow_table()["o_custkey"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("flag", "True", True),
        ("flag", " false ", False),
        ("flag", "None", None),
        ("bytes", "1gb", 1 << 30),
        ("bytes", "", None),
        ("hours", "0.5", 0.5),
        ("integer", "-1", -1),
        ("names", "a,b", ("a", "b")),
        ("condition", "None", "None"),
        ("condition", "", ""),
        ("version", "7", "7"),
        ("location", " x", " x"),
        ("texts", '{"a": "b"}', {"a": "b"}),
    ],
)
def test_texts_are_parsed_as_values(kind: Any, text: str, expected: Any) -> None:
    assert value_of_text(Parameter("p", kind, ""), text) == expected


@pytest.mark.parametrize(
    ("kind", "text"),
    [("flag", "yes"), ("bytes", "many"), ("bytes", "0"), ("hours", "-1"), ("integer", "x"), ("texts", "None")],
)
def test_texts_that_are_not_values_are_refused(kind: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="p"):
        value_of_text(Parameter("p", kind, ""), text)
