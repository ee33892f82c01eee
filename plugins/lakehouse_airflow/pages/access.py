"""Check a user's rights to see a page and to start maintenance: Airflow's rights on the DAG of the table or subject.

This module does not postpone annotations, because FastAPI resolves annotations at run time.
"""

from collections.abc import Iterable

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_asset
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request

from lakehouse_airflow.factory.settings import erasure_dag_id
from lakehouse_airflow.pages.live_table import errors_as_http, registered_table
from lakehouse_airflow.pages.table_dags import maintenance_dags
from lakehouse_airflow.registry import load_registry


def require_reader(request: Request, user: GetUserDep) -> None:
    """Require the right to read the DAG of the table or subject, if the route has such a parameter.

    Raises:
        HTTPException: 401: the user is not signed in; 403: the user does not have the right; 404: the registry has no
            such table or subject.
    """
    table, subject = (request.path_params.get(name) for name in ("table", "subject"))
    if table is not None:
        _require_readable(_dag_of(table), f"maintains the table {table}", user)
    if subject is not None:
        _require_readable(_dag_of_subject(subject), f"erases a {subject}", user)


def readable_dags(dag_ids: Iterable[str], user: GetUserDep) -> set[str]:
    """The DAGs of ``dag_ids`` that the user may read."""
    manager = get_auth_manager()
    return {
        dag_id
        for dag_id in set(dag_ids)
        if manager.is_authorized_dag(method="GET", details=_details(dag_id), user=user)
    }


def may_trigger(request: Request, user: GetUserDep) -> bool:
    """Whether the user may start runs of the DAG of the route's table. Airflow's API requires the same right."""
    details = _details(_dag_of(request.path_params["table"]))
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


def require_trigger(request: Request, user: GetUserDep) -> None:
    """Require the right to start runs of the DAG of the route's table.

    Raises:
        HTTPException: 403: the user does not have the right.
    """
    if not may_trigger(request, user):
        raise HTTPException(403, f"Your user may not start runs of the DAG {_dag_of(request.path_params['table'])}.")


#: The checks of every route of the pages.
REQUIRED = (Depends(requires_access_asset("GET")), Depends(require_reader))


def _dag_of(table: str) -> str:
    with errors_as_http():
        registry, _ = registered_table(table)
        return maintenance_dags(registry, [table])[table]


def _dag_of_subject(subject: str) -> str:
    with errors_as_http():
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
