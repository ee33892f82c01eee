"""The registry: one JSON file that says which tables there are and what is done with them.

Relative paths in it are relative to its own folder. Tables may be at locations with a scheme, which stay as they are;
all else is on a disk.

DAG files read it each time they are parsed, so importing this module and reading a registry is fast.
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
    """The registry is missing or wrong; the text names the file, the key and the way out."""

    code = "DELTA_REGISTRY_INVALID"


class RegistryUnreadableError(RegistryError):
    """The file cannot be read, or is not JSON: it may be half written, or its file system be away for a moment."""


def _resolve(location: str, info: ValidationInfo) -> str:
    if not location:
        raise ValueError("an empty location")
    if "://" in location:
        return location
    scheme = _SCHEME.match(location)
    if scheme is not None:  # what normalizes paths makes this of a location, and it would be a folder of this machine
        raise PydanticCustomError(
            "no_path",
            "{scheme} is followed by one slash, and a location by two: write {scheme}//",
            {"scheme": scheme[0]},
        )
    return os.path.normpath(Path((info.context or {}).get("folder", "."), location))


def _no_uri(path: str) -> str:
    scheme = _SCHEME.match(path)
    if scheme is not None:
        raise PydanticCustomError(
            "no_path",
            "{scheme} locations are for tables alone: give a path on a disk, or on what is mounted as one",
            {"scheme": scheme[0]},
        )
    return path


#: Hours after which an unanswered question expires, where a policy does not say.
RESPONSE_HOURS = 720

#: A path or URI; relative ones are relative to the registry file.
Location = Annotated[str, AfterValidator(_resolve)]
#: What jobs read by plain files; relative ones are relative to the registry file.
LocalPath = Annotated[str, AfterValidator(_no_uri), AfterValidator(_resolve)]
#: Part of paths, URLs and asset URIs.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]

#: A reference to an object in a Python module: ``package.module:name``.
Reference = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


class Source(_Strict):
    """Where a table's rows land, and how to read them."""

    name: Name
    landing: LocalPath
    format: Literal["csv", "json", "parquet"] = "csv"
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = "utf-8"
    files_per_batch: int = Field(default=1, ge=1)
    settle_seconds: float = Field(
        default=60, ge=0, description="a file younger than this may still be growing and waits"
    )


class VacuumPolicy(_Strict):
    """How long files that are no longer in the table stay."""

    retention_hours: float | None = Field(default=None, ge=0, description="None: as long as the table itself says")
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
        default=None, ge=1, description="bytes; None: as large as the table itself says"
    )
    vacuum: VacuumPolicy = VacuumPolicy()

    @model_validator(mode="after")
    def _a_load_needs_its_gates(self) -> Table:
        if self.source is not None:
            missing = [
                key for key, value in (("schema", self.schema_file), ("quarantine", self.quarantine)) if value is None
            ]
            if missing:
                raise ValueError(f"a table with a source needs {' and '.join(missing)}")
        return self


class Through(_Strict):
    """The rows' keys are found in another table: those of ``select`` where ``key`` is the subject's id."""

    table: Name
    key: str
    select: str
    quarantine: bool = False


class SubjectRows(_Strict):
    """``quarantine``: the table holds refused rows, every column as text, and may not exist yet."""

    table: Name
    key: str
    through: Through | None = None
    quarantine: bool = False


class ApprovalPolicy(_Strict):
    """Who may answer a question, and how long it waits.

    ``approvers`` are user ids as Airflow's auth manager gives them. ``notifiers`` are ``package.module:factory``, each
    called without arguments for a notifier of Airflow.
    """

    approvers: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    four_eyes: bool = Field(default=True, description="the user who triggered the run may not be the one who approves")
    response_hours: float = Field(
        default=RESPONSE_HOURS, gt=0, le=87_600, description="hours after which an unanswered question expires"
    )
    notifiers: tuple[Reference, ...] = ()

    @model_validator(mode="after")
    def _someone_may_answer(self) -> Self:
        if not self.approvers:
            raise ValueError('approvers is empty: name at least one user id, such as "approvers": ["officer"]')
        return self


class Subject(ApprovalPolicy):
    """Whom an erasure concerns, and where the rows are: from the person's own table to what hangs on it."""

    id_type: Literal["long", "string"]
    rows: tuple[SubjectRows, ...] = Field(min_length=1)

    def places(self) -> list[str]:
        """Names of all tables that are looked into, those that only lead to others included, sorted."""
        return sorted(
            {rows.table for rows in self.rows} | {rows.through.table for rows in self.rows if rows.through is not None}
        )

    def tables(self) -> list[str]:
        """Names of the tables that rows are deleted from, each once, in the order in which rows are deleted.

        What is found through another table goes before it, and what hangs on the person before the person.
        """
        found_through = [rows.table for rows in self.rows if rows.through is not None]
        own = [rows.table for rows in reversed(self.rows) if rows.through is None]
        return list(dict.fromkeys(found_through + own))


class Report(_Strict):
    """A downstream table, made by one SQL query.

    New versions of the first table release it; the others are read along.
    """

    tables: tuple[Name, ...] = Field(min_length=1)
    sql: LocalPath
    output: Location


class Schedules(_Strict):
    """Cron expressions or presets of the DAGs; without one a DAG runs when it is triggered."""

    ingest: str | None = None
    maintenance: str | None = None


class Registry(_Strict):
    tables: dict[Name, Table]
    subjects: dict[Name, Subject] = {}
    ledger: Location | None = Field(
        default=None, description="where plans, decisions and records of approvals are kept"
    )
    repair: ApprovalPolicy | None = Field(default=None, description="who may approve the repair of a table")
    report: Report | None = None
    schedules: Schedules = Schedules()

    @model_validator(mode="after")
    def _every_table_is_known(self) -> Registry:
        used = {
            *(self.report.tables if self.report else ()),
            *(rows.table for subject in self.subjects.values() for rows in subject.rows),
            *(rows.through.table for subject in self.subjects.values() for rows in subject.rows if rows.through),
        }
        unknown = sorted(name for name in used if name not in self.tables and self._quarantine(name) is None)
        if unknown:
            raise ValueError(f"no table {', '.join(unknown)}; tables are {', '.join(sorted(self.tables)) or 'none'}")
        return self

    @model_validator(mode="after")
    def _approvals_are_kept_somewhere(self) -> Registry:
        asking = [*(f"subjects.{name}" for name in self.subjects), *(["repair"] if self.repair is not None else [])]
        if asking and self.ledger is None:
            raise ValueError(
                f'{asking[0]} needs a ledger: write "ledger": LOCATION beside "tables", a place that users of '
                "Airflow cannot write"
            )
        return self

    @model_validator(mode="after")
    def _no_place_is_in_the_way(self) -> Registry:
        for clash in clashes(self, _QUARANTINE):
            raise ValueError(clash)
        return self

    def table(self, name: str) -> Table:
        """The table of that name, or the quarantine of table T as ``T_quarantine``. RegistryError: there is none."""
        match = self.find(name)
        return _lookup(self.tables, "table", name) if match is None else match

    def find(self, name: str) -> Table | None:
        """As ``table``; None: there is none."""
        refused = self._quarantine(name)
        if name not in self.tables and refused is not None:
            return Table(uri=refused)
        return self.tables.get(name)

    def subject(self, name: str) -> Subject:
        """The subject of that name, with the quarantine of every table it names. RegistryError: there is none.

        What was refused is about the person too, so it need not be listed.
        """
        subject: Subject = _lookup(self.subjects, "subject", name)
        rows = [wider for row in subject.rows for wider in self._with_quarantine(row)]
        return subject.model_copy(update={"rows": tuple(dict.fromkeys(rows))})

    def _with_quarantine(self, row: SubjectRows) -> list[SubjectRows]:
        """The row, also in the quarantine of its table, and through the quarantine of the table it goes through."""
        throughs = [row.through]
        if row.through is not None and self._has_quarantine(row.through.table):
            throughs.append(row.through.model_copy(update=_refused(row.through)))
        wider = [row.model_copy(update={"through": through}) for through in throughs]
        if self._has_quarantine(row.table):
            wider += [each.model_copy(update=_refused(row)) for each in wider]
        return wider

    def _has_quarantine(self, name: str) -> bool:
        return self.table(name).quarantine is not None

    def _quarantine(self, name: str) -> str | None:
        table = self.tables.get(name.removesuffix(_QUARANTINE)) if name.endswith(_QUARANTINE) else None
        return table.quarantine if table is not None else None

    def repair_policy(self) -> ApprovalPolicy:
        """Who may approve the repair of a table.

        Raises:
            RegistryError: the registry has no ``repair``.
        """
        if self.repair is None:
            raise RegistryError(
                'the registry does not say who approves repairs: write "repair": {"approvers": ["USER ID"]} beside '
                '"tables"'
            )
        return self.repair

    def loaded_tables(self) -> list[str]:
        """Names of the tables that have a source, sorted."""
        return sorted(name for name, table in self.tables.items() if table.source is not None)


def read_registry(path: str | Path) -> Registry:
    """Read and check the registry file at ``path``.

    Raises:
        RegistryUnreadableError: the file cannot be read, or is not JSON.
        RegistryError: a key is wrong, unknown or there twice.
    """
    file = Path(path).absolute()
    try:
        body = json.loads(file.read_text(encoding="utf-8"), object_pairs_hook=_each_key_once)
    except OSError as error:
        raise RegistryUnreadableError(f"{file}: the registry cannot be read: {error.strerror}") from error
    except RegistryError as error:
        raise RegistryError(f"{file}: {error}") from None
    except ValueError as error:
        raise RegistryUnreadableError(f"{file}: the registry is not JSON: {error}") from error
    try:
        return Registry.model_validate(body, context={"folder": file.parent})
    except ValidationError as error:
        # Not ``from error``: its text quotes every value, and Airflow shows the whole chain of a DAG's import error.
        raise RegistryError("\n".join(f"{file}: {_explain(problem)}" for problem in error.errors())) from None


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse two tables of one name, of which JSON's usual reading keeps the last."""
    body: dict[str, Any] = {}
    for key, value in pairs:
        if key in body:
            raise RegistryError(f"the key {key!r} is there twice in one object: keep one of them")
        body[key] = value
    return body


def _explain(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key"
    reason = problem["msg"].removeprefix("Value error, ")
    value = problem["input"]
    # A location that is refused for its scheme may hold a secret.
    is_told = isinstance(value, str | int | float) and problem["type"] != "no_path"
    shown = f" (got {value!r})" if is_told else ""
    return f"{key}: {reason}{shown}" if key else reason


def _refused(place: SubjectRows | Through) -> dict[str, Any]:
    return {"table": f"{place.table}{_QUARANTINE}", "quarantine": True}


def _lookup(entries: dict[str, Any], kind: str, name: str) -> Any:
    try:
        return entries[name]
    except (KeyError, TypeError):
        names = ", ".join(sorted(entries)) or "none"
        raise RegistryError(f"the registry has no {kind} {name!r}; it has {names}") from None
