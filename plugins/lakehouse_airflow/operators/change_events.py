"""Telling downstream DAGs which tables have new data: which versions there were before, and what came since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import BaseOperator

from lakehouse_airflow.assets import LAKEHOUSE_ALIAS, lakehouse_asset
from lakehouse_airflow.failures import as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.registry import load_registry, require_registered

if TYPE_CHECKING:
    from airflow.sdk import Context

#: XCom key under which a task leaves {table: version before the DAG run touches it}; None: there was no table.
VERSIONS_KEY = "versions"
#: Stands there for the version of a table whose store did not say.
UNKNOWN = "unknown"


class LakehouseSelectTablesOperator(BaseOperator):
    """Returns the names of the registry's tables that a DAG run is about, sorted; tasks are mapped over them.

    Leaves their versions in the XCom ``versions``, which is what LakehousePublishOperator compares with. A table that
    cannot be looked at is among them with a warning, its version ``unknown``: its own task fails, and no other one's.

    Args:
        having: ``source`` for tables that are loaded, ``log`` for tables that exist.
        only: these names (templated), quarantines among them; empty for all. One that is not ``having`` what is asked
            for is returned all the same, so that its own task fails and says so.

    Raises:
        AirflowFailException: a name that the registry does not have, or no list of names.
    """

    template_fields: Sequence[str] = ("only",)

    def __init__(
        self,
        *,
        having: Literal["source", "log"],
        only: Any = (),
        lakehouse_conn_id: str = LakehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.having = having
        self.only = only
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> list[str]:
        with as_task_failure():
            registry = load_registry()
            only = sorted(set(_names(self.only)))
            for name in only:
                registry.table(name)
            every = registry.loaded_tables() if self.having == "source" else sorted(registry.tables)
        hook = LakehouseHook(self.lakehouse_conn_id)
        versions = {name: self._version(hook, name) for name in only or every}
        if self.having == "log" and not only:
            versions = {name: version for name, version in versions.items() if version is not None}
        context["ti"].xcom_push(VERSIONS_KEY, versions)
        return list(versions)

    def _version(self, hook: LakehouseHook, table: str) -> int | str | None:
        try:
            with as_task_failure():
                return hook.version(table)
        except AirflowException as error:
            self.log.warning("%s: its version is not known: %s", table, error)
            return UNKNOWN


class LakehousePublishOperator(BaseOperator):
    """Emits one asset event a table whose rows have changed since, with the range of versions; none where nothing did.

    The event's extra is ``{"table", "from_version", "to_version"}``; ``from_version`` is the last version before the
    change, -1 for a table that was not there. Compaction and clustering change no rows and release no DAG. Of a table
    whose version before is unknown, the last commit alone is judged.

    One task publishes for all tables of a run, so that a DAG waiting for several of them runs once. A table that cannot
    be looked at is left out with a warning: events of the others do not wait for it. While the task has tries left, an
    error that may pass is raised instead, and so is any where there is no event of another table.

    The versions are an XCom, which any user may edit: a table that the registry does not have is not looked at, and
    ``to_version`` is read from the table. Another ``from_version`` that the table may have had is taken as it is.

    Args:
        versions: {table: version before, None or ``unknown``} (templated).

    Returns:
        {table: [from_version, to_version]} of the events.

    Raises:
        AirflowFailException, AirflowException: by the rule of ``failures``.
    """

    template_fields: Sequence[str] = ("versions",)

    def __init__(
        self,
        *,
        versions: Any,
        lakehouse_conn_id: str = LakehouseHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(outlets=[LAKEHOUSE_ALIAS], **kwargs)
        self.versions = versions
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> dict[str, list[int]]:
        if not isinstance(self.versions, Mapping):
            raise AirflowFailException("the versions from before are not known; run the DAG again from its first task")
        published: dict[str, list[int]] = {}
        failed: dict[str, AirflowException] = {}
        hook = LakehouseHook(self.lakehouse_conn_id)
        for table, before in sorted(self.versions.items()):
            try:
                with as_task_failure():
                    changed = _changed(hook, table, before)
            except AirflowException as error:
                failed[table] = error
                continue
            if changed is not None:
                published[table] = list(changed)
        passing = [error for error in failed.values() if not isinstance(error, AirflowFailException)]
        if passing and context["ti"].try_number <= context["ti"].max_tries:
            raise passing[0]
        if failed and not published:
            raise next(iter(failed.values()))
        for table, error in failed.items():
            self.log.warning("%s: no event, because what has changed is unknown: %s", table, error)
        for table, (first, last) in published.items():
            context["outlet_events"][LAKEHOUSE_ALIAS].add(
                lakehouse_asset(table), extra={"table": table, "from_version": first, "to_version": last}
            )
            self.log.info("%s: versions %d to %d", table, first, last)
        return published


def _names(tables: Any) -> list[str]:
    if tables in (None, "", "None", "[]"):  # a template renders to text
        return []
    if isinstance(tables, str) or not isinstance(tables, Sequence) or not all(isinstance(name, str) for name in tables):
        raise AirflowFailException(
            f"only is {tables!r}; it has to be a list of names, such as dag.param('tables') gives for a DAG's param"
        )
    return list(tables)


def _changed(hook: LakehouseHook, table: str, before: object) -> tuple[int, int] | None:
    from lakehouse_lib.errors import InvalidArgumentError

    require_registered(table)
    if before is None:
        return hook.changed_rows(table, -1)
    if isinstance(before, int) and not isinstance(before, bool) and before >= 0:
        return hook.changed_rows(table, before)
    if before != UNKNOWN:
        raise InvalidArgumentError(
            f"the version of {table!r} before the run is {before!r}; expected a whole number from 0, null or {UNKNOWN}",
            hint="XCom has it, which users may edit: run the DAG again",
            code="DELTA_INVALID_VERSION",
        )
    # From -1 on it would be new. The last commit is the run's own, if it made one; if not, an event too many costs less
    # than one too few, because a released DAG reads by a cursor.
    latest = hook.version(table)
    return None if latest is None else hook.changed_rows(table, latest - 1)
