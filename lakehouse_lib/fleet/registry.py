"""The registry: a JSON file that lists the tables, their sources, and their maintenance.

Relative paths are relative to the file's folder. A table's location may have a scheme; all other paths are on a disk.

DAG files read the registry each time they are parsed, so this module imports only what reading it needs.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from lakehouse_lib.fleet.locations import clashes

_QUARANTINE = "_quarantine"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=/)")


class RegistryError(ValueError):
    """The registry is missing or not valid; the text has the code, the file, the key and what to change."""

    code = "DELTA_REGISTRY_INVALID"

    def __str__(self) -> str:
        return f"[{self.code}] {self.args[0]}"


class RegistryUnreadableError(RegistryError):
    """The registry cannot be read or is not JSON. A retry may help: another process may be writing the file."""


def _resolve(location: str, info: ValidationInfo) -> str:
    if not location:
        raise ValueError("the location is empty; expected a path or a URI")
    if "://" in location:
        return location
    scheme = _SCHEME.match(location)
    if scheme is not None:  # pathlib drops one of two slashes, and the rest would be a folder of this machine
        raise PydanticCustomError(
            "no_path",
            "the location has one slash after {scheme}; expected {scheme}//",
            {"scheme": scheme[0]},
        )
    return os.path.normpath(Path((info.context or {}).get("folder", "."), location))


def _reject_uri(path: str) -> str:
    scheme = _SCHEME.match(path)
    if scheme is not None:
        raise PydanticCustomError(
            "no_path",
            "the path begins with {scheme}; expected a path on a local or mounted disk (only tables have a URI)",
            {"scheme": scheme[0]},
        )
    return path


#: Hours after which an unanswered question expires, by default.
RESPONSE_HOURS = 720

#: A path or URI; a relative path is relative to the folder of the registry file.
Location = Annotated[str, AfterValidator(_resolve)]
#: A path on a disk; a relative path is relative to the folder of the registry file.
LocalPath = Annotated[str, AfterValidator(_reject_uri), AfterValidator(_resolve)]
#: A name, which becomes a part of paths, URLs and asset URIs.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]

#: A reference to an object in a Python module: ``package.module:name``.
Reference = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


class Source(_Strict):
    """The landing folder of a table and the format of its files."""

    name: Name
    landing: LocalPath
    format: Literal["csv", "json", "parquet"] = "csv"
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = "utf-8"
    files_per_batch: int = Field(default=1, ge=1)
    settle_seconds: float = Field(
        default=60, ge=0, description="a file modified less than this many seconds ago is left for a later run"
    )


class VacuumPolicy(_Strict):
    """The retention of removed files; see ``LakehouseVacuumOperator``."""

    retention_hours: float | None = Field(default=None, ge=0, description="None: the table's own retention")
    enforce_retention: bool = Field(default=True, description="False permits less than the table's own retention")


class Table(_Strict):
    uri: Location
    source: Source | None = None
    schema_file: LocalPath | None = Field(default=None, alias="schema")
    suite: LocalPath | None = None
    quarantine: Location | None = None
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    target_file_size: int | None = Field(
        default=None, ge=1, description="bytes; None: the table's delta.targetFileSize"
    )
    vacuum: VacuumPolicy = VacuumPolicy()

    @model_validator(mode="after")
    def _check_load(self) -> Table:
        if self.source is not None:
            missing = [
                key for key, value in (("schema", self.schema_file), ("quarantine", self.quarantine)) if value is None
            ]
            if missing:
                raise ValueError(f"a table with a source needs {' and '.join(missing)}")
        return self


class Through(_Strict):
    """A table through which rows are found: its rows with the identifier in ``key`` have the keys in ``select``."""

    table: Name
    key: str
    select: str
    quarantine: bool = False


class SubjectRows(_Strict):
    """A table with rows of the subject, and its key column.

    ``quarantine``: the table holds rejected rows, with every column as text, and may not exist yet.
    """

    table: Name
    key: str
    through: Through | None = None
    quarantine: bool = False


class ApprovalPolicy(_Strict):
    """The users who may answer a question, and the time they have.

    ``approvers`` are user ids of Airflow's auth manager. ``notifiers`` are references ``package.module:factory``; each
    factory is called without arguments and returns an Airflow notifier.
    """

    approvers: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    four_eyes: bool = Field(default=True, description="the user who triggered a run may not approve its request")
    response_hours: float = Field(
        default=RESPONSE_HOURS, gt=0, le=87_600, description="hours after which an unanswered question expires"
    )
    notifiers: tuple[Reference, ...] = ()

    @model_validator(mode="after")
    def _check_approvers(self) -> Self:
        if not self.approvers:
            raise ValueError('approvers is empty: name at least one user id, such as "approvers": ["officer"]')
        return self


class Subject(ApprovalPolicy):
    """A kind of person whose rows can be erased, and the tables with these rows, parents before children."""

    id_type: Literal["long", "string"]
    rows: tuple[SubjectRows, ...] = Field(min_length=1)

    def places(self) -> list[str]:
        """Names of all tables that a search reads, including those of ``through``, sorted."""
        return sorted(
            {rows.table for rows in self.rows} | {rows.through.table for rows in self.rows if rows.through is not None}
        )

    def tables(self) -> list[str]:
        """Names of the tables from which rows are deleted, each once, in the order of the deletes.

        A table whose rows are found through another table precedes it; the person's own table is the last.
        """
        found_through = [rows.table for rows in self.rows if rows.through is not None]
        own = [rows.table for rows in reversed(self.rows) if rows.through is None]
        return list(dict.fromkeys(found_through + own))


class Report(_Strict):
    """A downstream table that one SQL query computes.

    New versions of the first table start the report's DAG; the other tables are inputs only.
    """

    tables: tuple[Name, ...] = Field(min_length=1)
    sql: LocalPath
    output: Location


class Schedules(_Strict):
    """Schedules of the DAGs: cron expressions or presets; without a schedule a DAG runs only when triggered."""

    ingest: str | None = None
    maintenance: str | None = None


class Registry(_Strict):
    tables: dict[Name, Table]
    subjects: dict[Name, Subject] = {}
    ledger: Location | None = Field(
        default=None, description="location of the plans, decisions and records of approvals"
    )
    repair: ApprovalPolicy | None = Field(default=None, description="who may approve the repair of a table")
    report: Report | None = None
    schedules: Schedules = Schedules()

    @model_validator(mode="after")
    def _check_table_names(self) -> Registry:
        used = {
            *(self.report.tables if self.report else ()),
            *(rows.table for subject in self.subjects.values() for rows in subject.rows),
            *(rows.through.table for subject in self.subjects.values() for rows in subject.rows if rows.through),
        }
        unknown = sorted(name for name in used if name not in self.tables and self._quarantine(name) is None)
        if unknown:
            raise ValueError(
                f"the tables have no {', '.join(unknown)}; expected one of {', '.join(sorted(self.tables)) or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _check_ledger(self) -> Registry:
        asking = [*(f"subjects.{name}" for name in self.subjects), *(["repair"] if self.repair is not None else [])]
        if asking and self.ledger is None:
            raise ValueError(
                f'{asking[0]} needs a ledger: write "ledger": LOCATION beside "tables", a location where Airflow\'s '
                "users cannot write"
            )
        return self

    @model_validator(mode="after")
    def _check_locations(self) -> Registry:
        for clash in clashes(self, _QUARANTINE):
            raise ValueError(clash)
        return self

    def table(self, name: str) -> Table:
        """The table of that name; ``T_quarantine`` is the quarantine of table T.

        Raises:
            RegistryError: the registry has no such table.
        """
        match = self.find(name)
        return _lookup(self.tables, "table", name) if match is None else match

    def find(self, name: str) -> Table | None:
        """The table of that name, as ``table``; None if the registry has no such table."""
        refused = self._quarantine(name)
        if name not in self.tables and refused is not None:
            return Table(uri=refused)
        return self.tables.get(name)

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


def read_registry(path: str | Path) -> Registry:
    """Read and check the registry file at ``path``.

    Raises:
        RegistryUnreadableError: the file cannot be read, or is not JSON.
        RegistryError: a key is unknown, duplicate, or has a value that is not valid.
    """
    file = Path(path).absolute()
    try:
        body = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_reject_duplicate_keys)
    except OSError as error:
        raise RegistryUnreadableError(f"{file}: the registry cannot be read: {error.strerror}") from error
    except RegistryError as error:
        raise RegistryError(f"{file}: {error.args[0]}") from None
    except ValueError as error:
        raise RegistryUnreadableError(f"{file}: the registry is not JSON: {error}") from error
    try:
        return Registry.model_validate(body, context={"folder": file.parent})
    except ValidationError as error:
        # Not ``from error``: pydantic's text quotes every value, and Airflow shows the whole chain of an import error.
        raise RegistryError("\n".join(f"{file}: {_explain(problem)}" for problem in error.errors())) from None


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict; a duplicate key is an error, where ``json`` would keep the last value."""
    body: dict[str, Any] = {}
    for key, value in pairs:
        if key in body:
            raise RegistryError(f"the key {key!r} occurs twice in one object; remove one of the two")
        body[key] = value
    return body


def _explain(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    reason = problem["msg"].removeprefix("Value error, ")
    value = problem["input"]
    # A location that is rejected for its scheme may hold a secret.
    shows_value = isinstance(value, str | int | float) and problem["type"] != "no_path"
    shown = f" (got {value!r})" if shows_value else ""
    return f"{key}: {reason}{shown}" if key else reason


def _quarantine_fields(place: SubjectRows | Through) -> dict[str, Any]:
    return {"table": f"{place.table}{_QUARANTINE}", "quarantine": True}


def _lookup(entries: dict[str, Any], kind: str, name: str) -> Any:
    try:
        return entries[name]
    except (KeyError, TypeError):
        names = ", ".join(sorted(entries)) or "none"
        raise RegistryError(f"the registry has no {kind} {name!r}; expected one of {names}") from None
