"""The page that asks whether to maintain a table now. Its button calls Airflow's API. The page itself is read-only."""

import json

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.operators.maintenance.fleet import fleet_of, record_of
from lakehouse_airflow.pages.access import require_trigger
from lakehouse_airflow.pages.dag_state import dag_states
from lakehouse_airflow.pages.live_table import errors_as_http, registered_table
from lakehouse_airflow.pages.rendering import page
from lakehouse_airflow.pages.table_dags import maintenance_dags
from lakehouse_airflow.pages.views.run import EFFECTS, planned_rows
from lakehouse_lib.fleet.maintenance import plan_fleet
from lakehouse_lib.fleet.planner.budget import Budget

router = APIRouter()


@router.get("/tables/{table}/maintenance", response_class=HTMLResponse, dependencies=[Depends(require_trigger)])
def maintenance_page(request: Request, table: str) -> HTMLResponse:
    """The steps that are due on a registered table, and the button that starts a run of the table's DAG.

    The run plans again, within the registry's budget. It maintains no other table.
    """
    with errors_as_http():
        registry, _ = registered_table(table)
        hook, dag_id = LakehouseHook(), maintenance_dags(registry, [table])[table]
        fleet = plan_fleet(fleet_of(registry, [table], hook), Budget(), record_of(registry, hook))
        for error in fleet.errors.values():
            raise error
    return page(
        request,
        "maintenance.html",
        name=table,
        steps=planned_rows(fleet.plan.steps),
        effects=EFFECTS,
        dag_id=dag_id,
        dag=dag_states([dag_id])[dag_id],
        body=json.dumps({"logical_date": None, "conf": {"tables": [table]}}),
    )
