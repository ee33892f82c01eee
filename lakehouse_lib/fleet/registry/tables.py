"""The tables of the registry: their sources, and the settings of their maintenance."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from pydantic import Field, model_validator

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.verbs import Verb
from lakehouse_lib.fleet.registry.dag_settings import DagSettings
from lakehouse_lib.fleet.registry.fields import Bytes, Columns, ConnectionId, LocalPath, Location, Name, Strict
from lakehouse_lib.ingestion.name_pattern import NamePattern
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.store.schemes import kind_of


class Source(Strict):
    """The landing folder of a table and the format of its files."""

    name: Name
    landing: Location
    pattern: str | None = Field(
        default=None, description="the names of the files, such as **/*.csv; None: all files of the folder itself"
    )
    connection: ConnectionId | None = Field(
        default=None, description="the Airflow connection for the landing folder; None: the connection of the table"
    )
    storage_options: dict[str, str] = Field(
        default={}, description="the storage options of the landing folder, without credentials"
    )
    format: Literal["csv", "json", "json_array", "parquet", "orc"] = "csv"
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    quote: str = Field(default='"', max_length=1, description="the character around fields; empty: none")
    encoding: str = "utf-8"
    line_breaks: bool = Field(
        default=True,
        description="whether quoted fields may have line breaks; without them, several Spark tasks may read a file",
    )
    header: bool = Field(default=True, description="the first record names the columns")
    null_texts: tuple[str, ...] = Field(default=("",), description="unquoted texts that mean NULL")
    comment: str = Field(default="", max_length=1, description="the character at the start of comment lines")
    skip_lines: int = Field(default=0, ge=0, description="lines before the header that are skipped")
    decimal: Literal[".", ","] = Field(default=".", description="the sign before the decimals of a number")
    time_formats: dict[str, str] = Field(
        default={}, description="column: pattern of a date or timestamp that is not ISO 8601, such as dd.MM.yyyy"
    )
    path_columns: Columns = Field(default=(), description="columns in the names of folders, such as day=2026-01-01")
    evolution: Literal["refuse", "rescue", "add_columns"] = Field(
        default="refuse",
        description="refuse: a file with other columns is refused; rescue: columns and values that do not fit the "
        "schema are put into the column _rescued; add_columns: new columns and members of structs are added to the "
        "table",
    )
    files_per_batch: int = Field(default=1, ge=1, le=10_000)
    bytes_per_batch: Bytes | None = Field(
        default=None, description="the largest total size of a batch of several files, such as 10gb; None: no limit"
    )
    order: Literal["any", "by_name"] = Field(
        default="any", description="by_name: the name of a new file is greater than the names of all earlier files"
    )
    refused: Literal["once", "fail", "report"] = Field(
        default="once",
        description="which refused files fail a run: once: those that the run has refused; fail: also those of earlier "
        "runs; report: none",
    )
    settle_seconds: float = Field(
        default=60, ge=0, description="a file modified less than this many seconds ago is left for a later run"
    )

    def _format(self) -> SourceFormat:
        own = {option.name: getattr(self, option.name) for option in fields(SourceFormat) if option.name != "kind"}
        return SourceFormat(self.format, **own)

    @model_validator(mode="after")
    def _check_landing(self) -> Source:
        try:
            NamePattern(self.pattern)
            self._format()
            kind = kind_of(self.landing) if self.storage_options else None
        except InvalidArgumentError as error:
            raise ValueError(error.message) from None
        secret = [
            name for name in self.storage_options if kind is not None and kind.option_of(name) in kind.credentials
        ]
        if secret:
            raise ValueError(f"storage_options has the credential {secret[0]}; expected credentials in a connection")
        return self


class VacuumPolicy(Strict):
    """The retention of removed files, and how they are deleted; see ``LakehouseVacuumOperator``."""

    retention_hours: float | None = Field(default=None, ge=0, description="None: the table's own retention")
    enforce_retention: bool = Field(default=True, description="False permits a retention shorter than the table's own")
    full: bool = Field(default=True, description="False: do not list the table; files without a log entry stay")
    files_per_second: float | None = Field(
        default=None, gt=0, description="the largest number of files deleted per second; None: no limit"
    )


class Maintenance(Strict):
    """The settings of the planner for a table; ``None``: the planner's default (``fleet.planner.policy.Policy``)."""

    verbs: tuple[Verb, ...] | None = Field(default=None, description="the verbs that may be planned; None: all")
    priority: float | None = Field(default=None, gt=0, description="a factor for the gain of the table's steps")
    payback_queries: float | None = Field(
        default=None, gt=0, description="a step is planned only if this number of queries saves at least its cost"
    )
    engine: Literal["arrow", "spark"] | None = Field(
        default=None,
        description="the engine that maintains the table in Airflow; None: spark if a run is planned to read and write "
        "1 GiB or more",
    )


class Settings(Strict):
    """The settings of a table's maintenance."""

    cluster_by: Columns = Field(default=(), description="the columns to Z-order by")
    target_file_size: Bytes | None = Field(
        default=None, description="bytes, or a text such as 256mb; None: the table's delta.targetFileSize"
    )
    vacuum: VacuumPolicy = VacuumPolicy()
    maintenance: Maintenance = Maintenance()
    airflow: DagSettings = DagSettings()

    def policy(self) -> Policy:
        """The policy by which a table with these settings is maintained."""
        chosen = self.maintenance.model_dump(exclude_none=True, exclude={"engine"})
        return Policy(
            cluster_by=self.cluster_by,
            target_file_size=self.target_file_size,
            retention_hours=self.vacuum.retention_hours,
            enforce_retention=self.vacuum.enforce_retention,
            full_vacuum=self.vacuum.full,
            files_per_second=self.vacuum.files_per_second,
            **chosen,
        )


class Table(Settings):
    """A table, its source, and its maintenance. It inherits missing settings from its group and the defaults."""

    uri: Location
    group: Name | None = Field(default=None, description="the group whose settings the table has")
    source: Source | None = None
    schema_file: LocalPath | None = Field(default=None, alias="schema")
    suite: LocalPath | None = None
    quarantine: Location | None = None
    partition_by: Columns = ()

    @model_validator(mode="after")
    def _check_load(self) -> Table:
        if self.source is not None:
            missing = [
                key for key, value in (("schema", self.schema_file), ("quarantine", self.quarantine)) if value is None
            ]
            if missing:
                raise ValueError(f"a table with a source needs {' and '.join(missing)}")
        return self
