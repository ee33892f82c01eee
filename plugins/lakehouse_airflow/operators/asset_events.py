"""Operators that emit asset events: the first reads the versions of tables before a run changes their rows, the second
emits an event for each table whose rows have changed since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import BaseOperator

from lakehouse_airflow.assets import LAKEHOUSE_ALIAS, lakehouse_asset
from lakehouse_airflow.errors import InvalidParameterError, as_task_failure
from lakehouse_airflow.hook import LakehouseHook
from lakehouse_airflow.registry import load_registry, require_registered

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context

#: XCom key of {table: version before the DAG run's changes}. A version is None if the table did not exist.
VERSIONS_KEY = "versions"
#: The value in place of a version if the table could not be read.
UNKNOWN = "unknown"


class LakehouseSelectTablesOperator(BaseOperator):
    """Returns the sorted names of the tables of a DAG run, so that the DAG can map tasks over the tables.

    Pushes the tables' versions as XCom ``versions``, which LakehousePublishOperator takes. A table that cannot be read
    is included, with a warning and the version ``unknown``, so that only the task of this table fails. All arguments
    except ``skip`` and ``most`` are templated.

    Args:
        tables: the tables of the DAG; None: all tables of the registry.
        having: ``source``: only tables with a source; ``log``: only tables that exist.
        only: the names of tables or quarantines; empty: all tables of the DAG. A name that does not fit ``having`` is
            included, so that its own task fails with the reason.
        skip, most: leave out the first ``skip`` names, and return at most ``most`` (None: all others). So several
            tasks can share the tables of a DAG.

    Raises:
        AirflowFailException: the registry or the DAG does not have a name, or ``only`` is not a list of names.
    """

    template_fields: Sequence[str] = ("having", "tables", "only", "lakehouse_conn_id")

    def __init__(
        self,
        *,
        having: Literal["source", "log"],
        tables: Sequence[str] | None = None,
        only: Any = (),
        skip: int = 0,
        most: int | None = None,
        lakehouse_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.having = having
        self.tables = tables
        self.only = only
        self.skip = skip
        self.most = most
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> list[str]:
        with as_task_failure():
            registry = load_registry()
            only = sorted(set(table_names(self.only, self.tables)))
            for name in only:
                registry.table(name)
            all_names = registry.loaded_tables() if self.having == "source" else sorted(registry.tables)
            all_names = [name for name in all_names if self.tables is None or name in self.tables]
        hook = LakehouseHook(self.lakehouse_conn_id)
        names = (only or all_names)[self.skip :][: self.most]
        versions = {name: self._version(hook, name) for name in names}
        if self.having == "log" and not only:
            versions = {name: version for name, version in versions.items() if version is not None}
        context["ti"].xcom_push(VERSIONS_KEY, versions)
        return list(versions)

    def _version(self, hook: LakehouseHook, table: str) -> int | str | None:
        try:
            with as_task_failure():
                return hook.version(table)
        except AirflowException as error:
            self.log.warning("%s: the version is unknown: %s", table, error)
            return UNKNOWN


class LakehousePublishOperator(BaseOperator):
    """Emits an asset event for each table whose rows have changed, with the range of versions.

    The event's extra is ``{"table", "from_version", "to_version"}``. ``from_version`` is the last version before the
    change, -1 for a new table. Compaction and Z-order change no rows and trigger no DAG. If a table's version before
    the run is unknown, only the table's last commit is checked.

    One task emits the events of all tables of a run, so that a DAG that is scheduled on several tables runs once. A
    table that cannot be read gets a warning and no event. The task raises the error of such a table if a retry may help
    and the task has tries left, or if no table has an event.

    The versions are from XCom, which any user may edit. So a table must be in the registry, and ``to_version`` is read
    from the table. An edited ``from_version`` that is a valid version is not detected.

    Args:
        versions: {table: version before the run, None or ``unknown``} (templated).
        assets: the assets of the tables that the run may change. They become outlets, so that Airflow's asset graph
            shows them before the first run. A table that has not changed gets no event.

    Returns:
        {table: [from_version, to_version]} of the events.

    Raises:
        AirflowException: an error that a retry may help (see ``errors.failure``).
        AirflowFailException: another error.
    """

    template_fields: Sequence[str] = ("versions", "lakehouse_conn_id")

    def __init__(
        self,
        *,
        versions: Any,
        lakehouse_conn_id: str | None = None,
        assets: Sequence[Asset] = (),
        outlets: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(outlets=[LAKEHOUSE_ALIAS, *assets, *(outlets or ())], **kwargs)
        self.versions = versions
        self.assets = list(assets)
        self.lakehouse_conn_id = lakehouse_conn_id

    def execute(self, context: Context) -> dict[str, list[int]]:
        # Airflow emits an event for each outlet that a task has when it succeeds. So the assets are removed here, and
        # the alias emits the events of changed tables.
        self.outlets = [outlet for outlet in self.outlets if outlet not in self.assets]
        if not isinstance(self.versions, Mapping):
            raise InvalidParameterError(
                "versions is not a dict; expected {table: version before the run}; run the DAG again from the start"
            )
        events: dict[str, list[int]] = {}
        errors: dict[str, AirflowException] = {}
        hook = LakehouseHook(self.lakehouse_conn_id)
        for table, before in sorted(self.versions.items()):
            try:
                with as_task_failure():
                    versions = _changed_versions(hook, table, before)
            except AirflowException as error:
                errors[table] = error
                continue
            if versions is not None:
                events[table] = list(versions)
        transient_errors = [error for error in errors.values() if not isinstance(error, AirflowFailException)]
        if transient_errors and context["ti"].try_number <= context["ti"].max_tries:
            raise transient_errors[0]
        if errors and not events:
            raise next(iter(errors.values()))
        for table, error in errors.items():
            self.log.warning("%s: no event, because its changes are unknown: %s", table, error)
        for table, (first, last) in events.items():
            context["outlet_events"][LAKEHOUSE_ALIAS].add(
                lakehouse_asset(hook.uri(table)), extra={"table": table, "from_version": first, "to_version": last}
            )
            self.log.info("%s: versions %d to %d", table, first, last)
        return events


def table_names(tables: Any, permitted: Sequence[str] | None = None) -> list[str]:
    """The names of tables in a param or a template, which may render to text.

    Args:
        permitted: the tables of the DAG; None: all.

    Raises:
        AirflowFailException: the value is not a list of names, or has a name that is not permitted.
    """
    if isinstance(tables, str) and tables.startswith("["):  # a template renders to text
        with suppress(json.JSONDecodeError):
            tables = json.loads(tables)
    if tables in (None, "", "None", []):
        return []
    if isinstance(tables, str) or not isinstance(tables, Sequence) or not all(isinstance(name, str) for name in tables):
        raise InvalidParameterError(
            f"only is {tables!r}; expected a list of names, such as {{{{ params.tables | tojson }}}}"
        )
    for name in tables:
        if permitted is not None and name not in permitted:
            raise InvalidParameterError(
                f"the DAG has no table {name!r}; it has {', '.join(permitted) or 'none'}. If a table or its "
                "group has a separate DAG, only that DAG has the table"
            )
    return list(tables)


def _changed_versions(hook: LakehouseHook, table: str, before: object) -> tuple[int, int] | None:
    from lakehouse_lib.errors import InvalidArgumentError

    require_registered(table)
    if before is None:
        return hook.changed_rows(table, -1)
    if isinstance(before, int) and not isinstance(before, bool) and before >= 0:
        return hook.changed_rows(table, before)
    if before != UNKNOWN:
        raise InvalidArgumentError(
            f"the version of {table!r} before the run is {before!r}; expected a whole number from 0, null or {UNKNOWN}",
            hint="The value is from XCom, which users may edit: run the DAG again",
            code="DELTA_INVALID_VERSION",
        )
    # The version before the run is unknown. With -1, the whole table would count as new, so only the last commit is
    # checked. If the run has committed, this is the run's commit. If not, the event is superfluous but does no harm,
    # because the triggered DAG reads by a cursor.
    latest = hook.version(table)
    return None if latest is None else hook.changed_rows(table, latest - 1)
