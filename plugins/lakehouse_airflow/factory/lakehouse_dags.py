"""Make all DAGs of a registry with one call in a DAG file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from airflow.sdk import DAG, get_parsing_context

from lakehouse_airflow.factory.ingest import ingest_dags
from lakehouse_airflow.factory.maintenance import maintenance_dags
from lakehouse_airflow.factory.registry_check import registry_check_dags
from lakehouse_airflow.factory.report import report_dags
from lakehouse_airflow.registry import load_registry, use_registry
from lakehouse_lib.fleet.registry import Registry


def erasure_dags(registry: Registry) -> Iterator[tuple[str, Callable[[], DAG]]]:
    """The DAGs of subjects. Their module needs Airflow 3.3, so it is imported only if the registry has subjects."""
    if registry.subjects:
        from lakehouse_airflow.factory import erasure

        yield from erasure.erasure_dags(registry)


#: The kinds of DAGs. Each function yields, for each DAG of its kind, the id and a function that makes the DAG.
_KINDS: dict[str, Callable[[Registry], Iterator[tuple[str, Callable[[], DAG]]]]] = {
    "ingest": ingest_dags,
    "maintenance": maintenance_dags,
    "erasure": erasure_dags,
    "report": report_dags,
    "registry": registry_check_dags,
}


def lakehouse_dags(registry: str | Path | None = None, *, only: Collection[str] = tuple(_KINDS)) -> dict[str, DAG]:
    """Make the DAGs of a registry in the DAG file that calls this function. Airflow registers them.

    When Airflow parses the file to run a task, only the DAG of this task is made. A table with mistakes in the registry
    is in no DAG except ``lakehouse_registry``, which fails with the mistakes. All other tables have their DAGs.

    Args:
        registry: the registry's path or URI; None: the configured registry (``LAKEHOUSE_REGISTRY``).
        only: kinds of DAGs: ingest, maintenance, erasure, report, registry; default: all kinds.

    Returns:
        The DAGs by id.

    Raises:
        RegistryError: the registry is not configured or cannot be read, or has a mistake outside of ``tables``.
        ImportError: the registry has subjects, and this Airflow is older than 3.3; leave out ``erasure`` in ``only``.
        ValueError: a kind is unknown.
    """
    unknown = sorted(set(only) - _KINDS.keys())
    if unknown:
        raise ValueError(f"only has {', '.join(unknown)}; expected some of {', '.join(_KINDS)}")
    use_registry(registry)  # also None, because the same process may have parsed another DAG file
    loaded_registry = load_registry()
    task_dag_id = get_parsing_context().dag_id
    return {
        dag_id: make()
        for kind in only
        for dag_id, make in _KINDS[kind](loaded_registry)
        if task_dag_id in (None, dag_id)
    }
