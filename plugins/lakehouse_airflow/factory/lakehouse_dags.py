"""Make all DAGs of a registry with one call in a DAG file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from airflow.sdk import DAG, get_parsing_context

from lakehouse_airflow.factory.ingest import ingest_dags
from lakehouse_airflow.factory.maintenance import maintenance_dags
from lakehouse_airflow.factory.registry_check import DAG_ID, check_dag
from lakehouse_airflow.factory.report import report_dags
from lakehouse_airflow.registry import load_registry, use_registry
from lakehouse_lib.fleet.registry import Registry, RegistryError


def erasure_dags(registry: Registry) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """The DAGs of subjects. Their module needs Airflow 3.3, so it is imported only if the registry has subjects."""
    if registry.subjects:
        from lakehouse_airflow.factory import erasure

        yield from erasure.erasure_dags(registry)


#: The kinds of DAGs of tables. Each function yields, for each DAG of its kind, the id and a function that makes it.
_KINDS: dict[str, Callable[[Registry], Iterator[tuple[str, Callable[[], DAG]]]]] = {
    "ingest": ingest_dags,
    "maintenance": maintenance_dags,
    "erasure": erasure_dags,
    "report": report_dags,
}
#: The kind of the DAG that fails with the mistakes of the registry.
_CHECK = "registry"
_ALL = (*_KINDS, _CHECK)


def lakehouse_dags(registry: str | Path | None = None, *, only: Collection[str] = _ALL) -> dict[str, DAG]:
    """Make the DAGs of a registry in the DAG file that calls this function. Airflow registers them.

    When Airflow parses the file to run a task, only the DAG of this task is made. A table with mistakes in the registry
    is in no DAG except ``lakehouse_registry``, which fails with the mistakes. All other tables have their DAGs. If a
    DAG cannot be made, ``lakehouse_registry`` fails with the reason, and the other DAGs are made.

    Args:
        registry: the registry's path or URI; None: the configured registry (``LAKEHOUSE_REGISTRY``).
        only: kinds of DAGs: ingest, maintenance, erasure, report, registry; default: all kinds.

    Returns:
        The DAGs by id.

    Raises:
        RegistryError: the registry is not configured or cannot be read, or has a mistake outside of ``tables``; or a
            DAG cannot be made, and it is the DAG of the running task or ``only`` has no ``registry``.
        ImportError: the registry has subjects, and this Airflow is older than 3.3; leave out ``erasure`` in ``only``.
        ValueError: a kind is unknown.
    """
    unknown = sorted(set(only) - set(_ALL))
    if unknown:
        raise ValueError(f"only has {', '.join(unknown)}; expected some of {', '.join(_ALL)}")
    use_registry(registry)  # also None, because the same process may have parsed another DAG file
    loaded_registry = load_registry()
    task_dag_id = get_parsing_context().dag_id
    dags: dict[str, DAG] = {}
    failures: dict[str, str] = {}
    for kind, dags_of in _KINDS.items():
        for dag_id, make in dags_of(loaded_registry) if kind in only else ():
            if task_dag_id not in (None, dag_id, DAG_ID):
                continue
            try:
                dags[dag_id] = make()
            except Exception as error:
                failures[dag_id] = f"the DAG {dag_id} cannot be made: {type(error).__name__}: {error}"
    if failures and (_CHECK not in only or task_dag_id in failures):
        raise RegistryError("\n".join(failures.values()))
    mistakes = {**loaded_registry.invalid_tables, **failures}
    if mistakes and _CHECK in only and task_dag_id in (None, DAG_ID):
        dags[DAG_ID] = check_dag(mistakes)
    return {dag_id: _registered(dag) for dag_id, dag in dags.items() if task_dag_id in (None, dag_id)}


def _registered(dag: DAG) -> DAG:
    """The DAG, registered with Airflow."""
    dag.auto_register = True
    with dag:  # Airflow registers a DAG at the end of the block
        return dag
