"""Who may see the pages, and who may start maintenance: the rights that Airflow has for the DAG of each table.

This module has no postponed annotations, because FastAPI resolves them at run time.
"""

from collections.abc import Iterable

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_asset
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request

from lakehouse_airflow.factory.settings import erasure_dag_id
from lakehouse_airflow.pages.live_table import answered_errors, registered_table
from lakehouse_airflow.pages.table_dags import dags_of
from lakehouse_airflow.registry import load_registry


def require_reader(request: Request, user: GetUserDep) -> None:
    """Require the right to read the DAG of the table or subject, if the route has such a parameter.

    Raises:
        HTTPException: 401: there is no login; 403: the user does not have it; 404: the registry has no such table or
            subject.
    """
    table, subject = (request.path_params.get(name) for name in ("table", "subject"))
    if table is not None:
        _require_readable(_dag_of(table), f"maintains the table {table}", user)
    if subject is not None:
        _require_readable(_dag_of_subject(subject), f"erases a {subject}", user)


def readable_dags(dag_ids: Iterable[str], user: GetUserDep) -> set[str]:
    """These DAGs without those that the user may not read."""
    manager = get_auth_manager()
    return {
        dag_id
        for dag_id in set(dag_ids)
        if manager.is_authorized_dag(method="GET", details=_details(dag_id), user=user)
    }


def may_trigger(request: Request, user: GetUserDep) -> bool:
    """Whether the user may start a run of the DAG of the route's table, as Airflow's API requires it."""
    details = _details(_dag_of(request.path_params["table"]))
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


def require_trigger(request: Request, user: GetUserDep) -> None:
    """Require the right to start a run of the DAG of the route's table; else 403."""
    if not may_trigger(request, user):
        raise HTTPException(403, f"Your user may not start runs of the DAG {_dag_of(request.path_params['table'])}.")


#: What every route of the pages requires.
REQUIRED = (Depends(requires_access_asset("GET")), Depends(require_reader))


def _dag_of(table: str) -> str:
    with answered_errors():
        registry, _ = registered_table(table)
        return dags_of(registry, [table])[table].dag_id


def _dag_of_subject(subject: str) -> str:
    with answered_errors():
        registry = load_registry()
    if subject not in registry.subjects:
        raise HTTPException(404, f"the registry has no subject {subject!r}")
    return erasure_dag_id(subject)


def _require_readable(dag_id: str, work: str, user: GetUserDep) -> None:
    if not readable_dags([dag_id], user):
        raise HTTPException(403, f"Your user may not read the DAG {dag_id}, which {work}.")


def _details(dag_id: str) -> DagDetails:
    """The DAG, with its team if Airflow has teams."""
    if not conf.getboolean("core", "multi_team", fallback=False):
        return DagDetails(id=dag_id)
    return DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
