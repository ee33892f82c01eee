"""``lakehouse_dags``: the DAGs of a registry, in a DAG file of three lines."""

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
    """The DAGs of subjects. Without subjects nothing is imported, because approvals need Airflow 3.3."""
    if registry.subjects:
        from lakehouse_airflow.factory import erasure

        yield from erasure.erasure_dags(registry)


#: The kinds of DAGs. Each function yields, for each of its DAGs, the id and a function that makes it.
_KINDS: dict[str, Callable[[Registry], Iterator[tuple[str, Callable[[], DAG]]]]] = {
    "ingest": ingest_dags,
    "maintenance": maintenance_dags,
    "erasure": erasure_dags,
    "report": report_dags,
    "registry": registry_check_dags,
}


def lakehouse_dags(registry: str | Path | None = None, *, only: Collection[str] = tuple(_KINDS)) -> dict[str, DAG]:
    """Make the DAGs of a registry in the DAG file that calls this function. Airflow registers them.

    While Airflow parses the file for a task, only the DAG of the task is made. A table with mistakes in the registry
    has no DAG, and the DAG ``lakehouse_registry`` fails with its mistakes; the other tables have their DAGs.

    Args:
        registry: the registry's path or URI; None: the configured one (``LAKEHOUSE_REGISTRY``).
        only: kinds of DAGs: ingest, maintenance, erasure, report, registry; default all.

    Returns:
        the DAGs by id.

    Raises:
        RegistryError: the registry is missing, or has a mistake outside of ``tables``.
        ImportError: the registry has subjects, and this Airflow is older than 3.3; leave out ``erasure`` in ``only``.
        ValueError: a kind is unknown.
    """
    unknown = sorted(set(only) - _KINDS.keys())
    if unknown:
        raise ValueError(f"only has {', '.join(unknown)}; expected some of {', '.join(_KINDS)}")
    if registry is not None:
        use_registry(registry)
    tables = load_registry()
    parsed = get_parsing_context().dag_id
    return {dag_id: make() for kind in only for dag_id, make in _KINDS[kind](tables) if parsed in (None, dag_id)}
