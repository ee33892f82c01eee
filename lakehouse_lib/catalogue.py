"""The operations that a table is looked after by, as plain data: jobs make their options of it, operators their calls.

Importing this module loads no verb: a function is named, and imported when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from lakehouse_lib.ingestion.load_result import LoadResult
from lakehouse_lib.operations.results import (
    ChangeResult,
    CleanupResult,
    OperationResult,
    RepairResult,
    VacuumResult,
)

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.snapshot import Snapshot

#: What a parameter's value is: ``condition`` is SQL text, ``file`` and ``folder`` are paths, ``inputs`` pairs of a
#: name and a location, ``names`` a tuple of columns; ``bytes`` and ``count`` are whole numbers of at least 1.
Kind = Literal[
    "bytes",
    "condition",
    "count",
    "file",
    "flag",
    "folder",
    "hours",
    "inputs",
    "integer",
    "location",
    "names",
    "seconds",
    "text",
]


@dataclass(frozen=True)
class Parameter:
    """What an operation is given.

    Attributes:
        help: a sentence for ``--help``.
        default: of a parameter that is not given.
        choices: the only valid texts; empty: any.
        keyword: the function's name for it; empty: the same.
    """

    name: str
    kind: Kind
    help: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    keyword: str = ""


@dataclass(frozen=True)
class Operation:
    """A verb that jobs and operators run.

    Attributes:
        name: in Python's spelling; the job of an operation that moves bytes is ``spark_jobs.NAME``.
        description: what it does, for ``--help``.
        function: what does it, as ``module:name`` below ``lakehouse_lib``.
        result: what the function returns; of ``erase``, once a table.
        moves_bytes: it needs an engine, and Airflow submits it as a job.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    function: str
    result: type[OperationResult]
    moves_bytes: bool

    def load(self) -> Callable[..., Any]:
        """The function, imported."""
        module, _, name = self.function.partition(":")
        value: Any = import_module(f"lakehouse_lib.{module}")
        for part in name.split("."):
            value = getattr(value, part)
        function: Callable[..., Any] = value
        return function


class TableOperation(Operation):
    """An operation on one table, the parameter ``table``."""

    def run(self, snapshot: Snapshot, engine: Engine | None = None, **arguments: Any) -> Any:
        """Run it on the table of a snapshot; its ``result``.

        Args:
            engine: who moves the bytes; for an operation that moves some.
            arguments: by the names of the parameters, without ``table``, or other arguments of the function. A
                condition is SQL.
        """
        from lakehouse_lib.expressions import parse

        for parameter in self.parameters:
            if parameter.name not in arguments:
                continue
            value = arguments.pop(parameter.name)
            if parameter.kind == "condition":
                value = parse(value, snapshot.schema, table=snapshot.store.root)
            arguments[parameter.keyword or parameter.name] = value
        if self.moves_bytes:
            arguments["engine"] = engine
        return self.load()(snapshot=snapshot, **arguments)


_TABLE = Parameter("table", "location", "the table's location", required=True)
_TARGET_FILE_SIZE = Parameter(
    "target_file_size", "bytes", "default: the table's delta.targetFileSize, else 100 MiB", keyword="target_size"
)
_DRY_RUN = Parameter("dry_run", "flag", "only say what would be done", default=False)
_ENFORCE_RETENTION = "refuse less than the table's own retention"

COMPACT = TableOperation(
    "compact",
    "Merge the small files of a Delta table into files of about the target size.",
    (_TABLE, _TARGET_FILE_SIZE),
    "operations.optimize.compact:compact",
    ChangeResult,
    moves_bytes=True,
)
Z_ORDER = TableOperation(
    "z_order",
    "Cluster a Delta table, so that predicates on these columns skip most of its files.",
    (
        _TABLE,
        Parameter("columns", "names", "the columns predicates are about", required=True),
        _TARGET_FILE_SIZE,
        Parameter("full", "flag", "rewrite files, too, that are clustered already", default=False),
    ),
    "operations.optimize.z_order:z_order",
    ChangeResult,
    moves_bytes=True,
)
DELETE_ROWS = TableOperation(
    "delete_rows",
    "Delete the rows for which a SQL predicate is true; rows for which it is NULL stay.",
    (_TABLE, Parameter("predicate", "condition", "which rows", required=True)),
    "operations.dml.delete:delete",
    ChangeResult,
    moves_bytes=True,
)
INGEST = Operation(
    "ingest",
    "Load source files from a landing folder into a Delta table, exactly once, whenever it is killed. Rows that "
    "cannot be read, or that break a rule of the suite, go to the quarantine table; a file whose columns do not "
    "fit is refused whole. Files named .*, _* and *.tmp are left alone.",
    (
        Parameter("table", "location", "created by the first batch", required=True),
        Parameter("landing", "folder", "a flat folder of source files", required=True),
        Parameter("source", "text", "who sends them; kept in the table's log", required=True),
        Parameter("format", "text", "json: one object a line", required=True, choices=("csv", "json", "parquet")),
        Parameter("schema", "file", "the table's schema, as Delta schema JSON", required=True),
        Parameter("quarantine", "location", "the table of rejected rows", required=True),
        Parameter("suite", "file", "a Great Expectations suite; each rule has a meta.rule_id"),
        Parameter("delimiter", "text", "of CSV; default: ,", default=","),
        Parameter("quote", "text", 'of CSV; default: "', default='"'),
        Parameter("encoding", "text", "of CSV and JSON; default: utf-8", default="utf-8"),
        Parameter("null_text", "text", "an unquoted CSV field that is NULL", default=""),
        Parameter("no_header", "flag", "CSV without names: columns in the schema's order", default=False),
        Parameter("partition_by", "names", "of a table to be created", default=()),
        Parameter("files_per_batch", "count", "files a commit; default: 1", default=1),
        Parameter(
            "settle_seconds",
            "seconds",
            "a file modified less than so many seconds ago, or whose size changes during the run, waits; default: 0",
            default=0.0,
        ),
        _TARGET_FILE_SIZE,
        Parameter(
            "refused",
            "text",
            "a refused file fails the job after the others are loaded (default), or is only reported",
            default="fail",
            choices=("fail", "report"),
        ),
        Parameter(
            "give_up",
            "flag",
            "give up a half-done batch whose files are lost; its files are new again. Refused once a run has decided "
            "to commit the batch, so a file is never loaded twice",
            default=False,
        ),
    ),
    "ingestion.load:Load.run",
    LoadResult,
    moves_bytes=True,
)
ERASE = Operation(
    "erase",
    "Delete rows from several tables in the order they are listed in. The first delete that fails is the last one; "
    "those before it stay, and to run the job again does them no harm.",
    (
        Parameter(
            "deletes_file",
            "file",
            'JSON: [{"table": URI, "predicate": SQL, "request": ID}, ...]. The tables\' history shows the erasure\'s '
            "request id in place of the predicate, and no line that the job prints has a value of a predicate",
            required=True,
        ),
    ),
    "operations.dml.delete:delete",
    ChangeResult,
    moves_bytes=True,
)
CHECKPOINT = TableOperation(
    "checkpoint",
    "Write a checkpoint of the latest version, so that readers need not replay the log.",
    (_TABLE,),
    "operations.checkpoint:checkpoint",
    OperationResult,
    moves_bytes=False,
)
VACUUM = TableOperation(
    "vacuum",
    "Delete data files that the table no longer has and that left it longer ago than the retention.",
    (
        _TABLE,
        Parameter("retention_hours", "hours", "default: the table's delta.deletedFileRetentionDuration, else 168"),
        _DRY_RUN,
        Parameter("enforce_retention_duration", "flag", _ENFORCE_RETENTION, default=True),
    ),
    "operations.vacuum:vacuum",
    VacuumResult,
    moves_bytes=False,
)
CLEANUP = TableOperation(
    "cleanup",
    "Delete what of the log is older than delta.logRetentionDuration and no later version needs.",
    (_TABLE, _DRY_RUN, Parameter("enforce_retention_duration", "flag", _ENFORCE_RETENTION, default=True)),
    "operations.cleanup:cleanup",
    CleanupResult,
    moves_bytes=False,
)
REPAIR = TableOperation(
    "repair",
    "Find what is wrong with a table's log and files, and repair what can be repaired.",
    (_TABLE, _DRY_RUN),
    "operations.repair:repair",
    RepairResult,
    moves_bytes=False,
)

#: Every operation by its name.
OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (COMPACT, Z_ORDER, DELETE_ROWS, INGEST, ERASE, CHECKPOINT, VACUUM, CLEANUP, REPAIR)
}
