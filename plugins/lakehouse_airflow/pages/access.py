"""Who may see the pages, and who may start maintenance: the rights that Airflow has for the maintenance DAG.

This module has no postponed annotations, because FastAPI resolves them at run time.
"""

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_asset
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException

#: The DAG that maintains every table.
MAINTENANCE_DAG = "lakehouse_maintenance"


def require_reader(user: GetUserDep) -> None:
    """The right to read the maintenance DAG.

    Raises:
        HTTPException: 401: there is no login; 403: the user has no right.
    """
    if not get_auth_manager().is_authorized_dag(method="GET", details=_details(), user=user):
        raise HTTPException(403, f"Your user may not read the DAG {MAINTENANCE_DAG}, which maintains the tables.")


def may_trigger(user: GetUserDep) -> bool:
    """Whether the user has the right to start a run of the maintenance DAG, as Airflow's API requires it."""
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=_details(), user=user
    )


def require_trigger(user: GetUserDep) -> None:
    """The right to start a run of the maintenance DAG; else 403."""
    if not may_trigger(user):
        raise HTTPException(403, f"Your user may not start runs of the DAG {MAINTENANCE_DAG}.")


#: What every route of the pages requires.
REQUIRED = (Depends(requires_access_asset("GET")), Depends(require_reader))


def _details() -> DagDetails:
    """The DAG and, in releases of Airflow with teams, its team."""
    if not hasattr(DagModel, "get_team_name"):
        return DagDetails(id=MAINTENANCE_DAG)
    return DagDetails(id=MAINTENANCE_DAG, team_name=DagModel.get_team_name(MAINTENANCE_DAG))
