"""The registry: the tables, their sources, their maintenance, and who may approve erasures and repairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, PrivateAttr, model_validator

from lakehouse_lib.errors import RegistryError
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.registry.fields import LocalPath, Location, Name, Strict
from lakehouse_lib.fleet.registry.inheritance import with_inherited_settings
from lakehouse_lib.fleet.registry.rules import check_rules
from lakehouse_lib.fleet.registry.subjects import ApprovalPolicy, Subject, SubjectRows, Through
from lakehouse_lib.fleet.registry.tables import Settings, Table
from lakehouse_lib.fleet.registry.window import BudgetSettings
from lakehouse_lib.store.schemes import canonical_location

_QUARANTINE = "_quarantine"
_REPORT = "report"


class Report(Strict):
    """A downstream table that one SQL query computes.

    New versions of the first table start the report's DAG. The other tables are only inputs.
    """

    tables: tuple[Name, ...] = Field(min_length=1)
    sql: LocalPath
    output: Location


class Registry(Strict):
    """The tables of a lakehouse, their maintenance, and who may approve erasures and repairs."""

    defaults: Settings = Field(default=Settings(), description="settings of all tables and quarantines")
    groups: dict[Name, Settings] = Field(default={}, description="settings of the tables of a group")
    tables: dict[Name, Table]
    records: Location | None = Field(
        default=None, description="location of the records of runs, deleted files and health"
    )
    budget: BudgetSettings = BudgetSettings()
    subjects: dict[Name, Subject] = Field(default={})
    ledger: Location | None = Field(
        default=None, description="location of the plans, decisions and records of approvals"
    )
    repair: ApprovalPolicy | None = Field(default=None, description="who may approve the repair of a table")
    report: Report | None = None
    #: By name, the mistakes of tables that were left out of ``tables``.
    _invalid_tables: dict[str, str] = PrivateAttr(default={})

    @model_validator(mode="before")
    @classmethod
    def _inherit(cls, body: Any) -> Any:
        return with_inherited_settings(body)

    @model_validator(mode="after")
    def _check_rules(self) -> Registry:
        check_rules(self, _QUARANTINE)
        return self

    def table(self, name: str) -> Table:
        """The table of that name; ``T_quarantine`` is the quarantine of table T, ``report`` the table of the report.

        Raises:
            RegistryError: the registry has no such table, or the table was left out because of mistakes.
        """
        match = self.find(name)
        if match is None and name in self._invalid_tables:
            raise RegistryError(self._invalid_tables[name])
        return _lookup(self.tables, "table", name) if match is None else match

    @property
    def invalid_tables(self) -> Mapping[str, str]:
        """By name, the mistakes of tables that ``read_registry(skip_invalid_tables=True)`` left out."""
        return self._invalid_tables

    def find(self, name: str) -> Table | None:
        """The table of that name; see ``table``. None if the registry has no such table."""
        if name in self.tables:
            return self.tables[name]
        location = self._quarantine(name)
        if location is None and name == _REPORT and self.report is not None:
            location = self.report.output
        return None if location is None else self._unlisted(location)

    def policy(self, name: str) -> Policy:
        """The policy by which the table of that name is maintained, with inherited settings.

        Raises:
            RegistryError: the registry has no such table.
        """
        return self.table(name).policy()

    def connection(self, name: str) -> str | None:
        """The Airflow connection that opens the table of that name; None: the default connection, or no such table."""
        if self.find(name) is None:
            return None
        entry = self.tables.get(self.table_of_quarantine(name), self.defaults)
        return entry.airflow.lakehouse_conn_id

    def fleet(self) -> dict[str, Table]:
        """The tables that are maintained, by name: the tables, their quarantines, and the table of the report.

        The report's table has the name ``report``. It is left out if another table has this name. A location that has
        several names, such as a quarantine of two tables, is in the fleet once, under the first name.
        """
        fleet = dict(self.tables)
        locations = {canonical_location(table.uri) for table in fleet.values()}
        unlisted = [(f"{name}{_QUARANTINE}", table.quarantine) for name, table in self.tables.items()]
        for name, location in [*unlisted, (_REPORT, self.report.output if self.report is not None else None)]:
            if location is not None and name not in fleet and canonical_location(location) not in locations:
                fleet[name] = self._unlisted(location)
                locations.add(canonical_location(location))
        return fleet

    def _unlisted(self, location: str) -> Table:
        """A table that is not in ``tables``. It has the default settings except ``airflow`` and ``cluster_by``.

        The table may lack the columns of ``cluster_by``.
        """
        settings = self.defaults
        return Table(
            uri=location,
            target_file_size=settings.target_file_size,
            vacuum=settings.vacuum,
            maintenance=settings.maintenance,
        )

    def subject(self, name: str) -> Subject:
        """The subject of that name, with the quarantines of its tables, because rejected rows are personal data, too.

        Raises:
            RegistryError: the registry has no such subject.
        """
        subject: Subject = _lookup(self.subjects, "subject", name)
        rows = [wider for row in subject.rows for wider in self._with_quarantine(row)]
        return subject.model_copy(update={"rows": tuple(dict.fromkeys(rows))})

    def _with_quarantine(self, row: SubjectRows) -> list[SubjectRows]:
        """The entry, and the same entry for the quarantines of its table and of the table of ``through``."""
        throughs = [row.through]
        if row.through is not None and self._has_quarantine(row.through.table):
            throughs.append(row.through.model_copy(update=_quarantine_fields(row.through)))
        wider = [row.model_copy(update={"through": through}) for through in throughs]
        if self._has_quarantine(row.table):
            wider += [entry.model_copy(update=_quarantine_fields(row)) for entry in wider]
        return wider

    def _has_quarantine(self, name: str) -> bool:
        return self.table(name).quarantine is not None

    def _quarantine(self, name: str) -> str | None:
        table = self.tables.get(name.removesuffix(_QUARANTINE)) if name.endswith(_QUARANTINE) else None
        return table.quarantine if table is not None else None

    def table_of_quarantine(self, name: str) -> str:
        """The name of the table whose quarantine has this name; the name itself if no quarantine has this name."""
        return name if name in self.tables or self._quarantine(name) is None else name.removesuffix(_QUARANTINE)

    def repair_policy(self) -> ApprovalPolicy:
        """The policy for approvals of repairs.

        Raises:
            RegistryError: the registry has no ``repair``.
        """
        if self.repair is None:
            raise RegistryError(
                'the registry has no approvers of repairs: write "repair": {"approvers": ["USER ID"]} beside "tables"'
            )
        return self.repair

    def loaded_tables(self) -> list[str]:
        """Names of the tables that have a source, sorted."""
        return sorted(name for name, table in self.tables.items() if table.source is not None)


def _quarantine_fields(place: SubjectRows | Through) -> dict[str, Any]:
    return {"table": f"{place.table}{_QUARANTINE}", "quarantine": True}


def _lookup(entries: dict[str, Any], kind: str, name: str) -> Any:
    try:
        return entries[name]
    except (KeyError, TypeError):
        names = ", ".join(sorted(entries)) or "none"
        raise RegistryError(f"the registry has no {kind} {name!r}; expected one of {names}") from None
