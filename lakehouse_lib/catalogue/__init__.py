"""The operations as plain data. Jobs take their options from this list, and Airflow operators their arguments.

Importing this module imports no verb: an operation has the name of its function, and ``load`` imports the function.
"""

from __future__ import annotations

from lakehouse_lib.catalogue.operation import Operation, Parameter, TableOperation
from lakehouse_lib.ingestion.load_result import LoadResult
from lakehouse_lib.operations.results import (
    ChangeResult,
    CleanupResult,
    OperationResult,
    PinResult,
    RepairResult,
    RestoreResult,
    VacuumResult,
)

_TABLE = Parameter("table", "location", "the table's location", required=True)
_TARGET_FILE_SIZE = Parameter(
    "target_file_size", "bytes", "default: the table's delta.targetFileSize, else 100 MiB", keyword="target_size"
)
_WHERE = Parameter("where", "condition", "only these partitions: SQL on partition columns", keyword="predicate")
_MIN_COMMIT_INTERVAL = Parameter(
    "min_commit_interval",
    "seconds",
    "commit finished files when this time has passed since the last commit; default: one commit at the end",
)
_DRY_RUN = Parameter("dry_run", "flag", "only report what would be done", default=False)

COMPACT = TableOperation(
    "compact",
    "Merge the small files of a Delta table into files of about the target size.",
    (_TABLE, _TARGET_FILE_SIZE, _WHERE, _MIN_COMMIT_INTERVAL),
    "operations.optimize.compact:compact",
    ChangeResult,
    moves_bytes=True,
    has_progress=True,
)
Z_ORDER = TableOperation(
    "z_order",
    "Z-order a Delta table, so that predicates on these columns skip most files.",
    (
        _TABLE,
        Parameter(
            "columns", "names", "the columns that queries filter by; without them, the clustering columns of the table"
        ),
        _TARGET_FILE_SIZE,
        Parameter("full", "flag", "also rewrite files that are Z-ordered already", default=False),
        _WHERE,
        _MIN_COMMIT_INTERVAL,
    ),
    "operations.optimize.z_order.z_order:z_order",
    ChangeResult,
    moves_bytes=True,
    has_progress=True,
)
REORG = TableOperation(
    "reorg",
    "Rewrite the files of a Delta table that have deleted rows or dropped columns, without them.",
    (_TABLE, _WHERE),
    "operations.optimize.purge:purge",
    ChangeResult,
    moves_bytes=True,
    has_progress=True,
)
COMPUTE_STATISTICS = TableOperation(
    "compute_statistics",
    "Add statistics that are missing in the log of a Delta table, from the footers or the columns of its data files.",
    (_TABLE,),
    "operations.optimize.statistics:compute_statistics",
    ChangeResult,
    moves_bytes=True,
)
#: Operations that change rows have this parameter, because a repetition of the operation may change the rows again.
APP_TRANSACTION = Parameter(
    "app_transaction",
    "application",
    "an id of this change; if the table's log has a change with this id, the job changes nothing, and returns the "
    "result of that change",
    keyword="commit_properties",
)
DELETE_ROWS = TableOperation(
    "delete_rows",
    "Delete the rows for which a SQL predicate is true. Rows for which it is NULL stay.",
    (_TABLE, Parameter("predicate", "condition", "the rows to delete", required=True), APP_TRANSACTION),
    "operations.dml.delete:delete",
    ChangeResult,
    moves_bytes=True,
)
UPDATE_ROWS = TableOperation(
    "update_rows",
    "Give columns new values in the rows for which a SQL predicate is true, or in all rows.",
    (
        _TABLE,
        Parameter(
            "updates",
            "assignments",
            """the new values as JSON: {"column": "SQL expression", ...}""",
            required=True,
            keyword="values",
        ),
        Parameter("predicate", "condition", "the rows to update; default: all rows"),
        APP_TRANSACTION,
    ),
    "operations.dml.update:update",
    ChangeResult,
    moves_bytes=True,
)
ADD_CONSTRAINT = TableOperation(
    "add_constraint",
    "Add CHECK constraints to a Delta table, if every row satisfies them.",
    (
        _TABLE,
        Parameter("constraints", "texts", """the conditions as JSON: {"name": "SQL condition", ...}""", required=True),
    ),
    "operations.alter.constraints:add_constraints",
    OperationResult,
    moves_bytes=True,
)
MERGE_ROWS = Operation(
    "merge_rows",
    "Update, delete and insert rows of a Delta table, depending on the rows of another table, in one commit.",
    (
        _TABLE,
        Parameter("source", "location", "the table with the new rows; it is read into memory", required=True),
        Parameter("predicate", "condition", "the rows that match, such as target.id = source.id", required=True),
        Parameter(
            "clauses",
            "clauses",
            """the clauses as JSON: [{"when_matched_update_all": {}}, {"when_not_matched_insert_all": {}}, ...]""",
            required=True,
        ),
        Parameter("source_alias", "text", "the name of the source in SQL; default: source", default="source"),
        Parameter("target_alias", "text", "the name of the table in SQL; default: target", default="target"),
        Parameter("merge_schema", "flag", "add columns that only the source has", default=False),
        APP_TRANSACTION,
    ),
    "operations.dml.merge:merge",
    ChangeResult,
    moves_bytes=True,
)
APPLY_CHANGES = Operation(
    "apply_changes",
    "Apply the change events that were added to a Delta table since the last run to another Delta table.",
    (
        Parameter("table", "location", "the table that follows the events; created by the first run", required=True),
        Parameter("events", "location", "the Delta table with the events", required=True),
        Parameter("keys", "names", "the columns that identify a row", required=True),
        Parameter("sequence_by", "text", "the column that orders the events of a key", required=True),
        Parameter("apply_as_deletes", "condition", "the events that delete their row, such as op = 'D'"),
        Parameter("except_columns", "names", "columns of the events that are not columns of the table", default=()),
        Parameter("ignore_null_updates", "flag", "keep the table's value if an event has NULL", default=False),
        Parameter("stored_as_scd_type", "integer", "1: the latest row of each key (default); 2: all rows", default=1),
        Parameter("merge_schema", "flag", "add columns that only the events have", default=False),
        Parameter("deleted_keys", "location", "the table of deletions; default: TABLE_deleted_keys"),
    ),
    "ingestion.change_events.follow:follow_events",
    ChangeResult,
    moves_bytes=True,
)
CLONE = Operation(
    "clone",
    "Create a new Delta table from a version of another table.",
    (
        Parameter("table", "location", "the location of the table to clone", required=True),
        Parameter("target", "location", "the location of the new table; an empty folder", required=True),
        Parameter("version", "version", "the version, or a time in ISO 8601; default: the latest version"),
        Parameter("is_shallow", "flag", "refer to the files of the table instead of copying them", default=False),
    ),
    "operations.clone.clone:clone",
    ChangeResult,
    moves_bytes=True,
)
INGEST = Operation(
    "ingest",
    "Load source files from a landing folder into a Delta table, exactly once, even if the job is killed. Rows that "
    "cannot be read, or that break a rule of the suite, are written to the quarantine table. A file whose columns do "
    "not fit is refused. Files named .*, _* and *.tmp are ignored.",
    (
        Parameter("table", "location", "created by the first batch", required=True),
        Parameter("landing", "location", "the folder of source files, on a disk or in an object store", required=True),
        Parameter("source", "text", "the sender of the files; the table's log shows it", required=True),
        Parameter(
            "format",
            "text",
            "json: one object a line; json_array: a file is one array of objects",
            required=True,
            choices=("csv", "json", "json_array", "parquet", "orc"),
        ),
        Parameter("schema", "file", "the table's schema, as Delta schema JSON", required=True),
        Parameter("quarantine", "location", "the table of rejected rows", required=True),
        Parameter("suite", "file", "a Great Expectations suite; each rule has a meta.rule_id"),
        Parameter("delimiter", "text", "the delimiter of CSV; default: ,", default=","),
        Parameter("quote", "text", 'the quote character of CSV; default: "', default='"'),
        Parameter("encoding", "text", "the encoding of CSV and JSON; default: utf-8", default="utf-8"),
        Parameter("null_texts", "text_list", "unquoted CSV texts that mean NULL; default: the empty text"),
        Parameter("comment", "text", "the character at the start of comment lines of CSV; default: none", default=""),
        Parameter("skip_lines", "integer", "lines before the CSV header that are skipped; default: 0", default=0),
        Parameter("decimal", "text", "the sign before the decimals of CSV numbers", default=".", choices=(".", ",")),
        Parameter("time_formats", "texts", 'formats of CSV and JSON times by column: {"day": "dd.MM.yyyy"}'),
        Parameter("no_header", "flag", "CSV without a header; columns are in the schema's order", default=False),
        Parameter(
            "no_line_breaks",
            "flag",
            "no field of CSV has a line break, so several Spark tasks may read a file; other files are refused",
            default=False,
        ),
        Parameter("path_columns", "names", "columns in the names of folders, such as day=2026-01-01", default=()),
        Parameter(
            "evolution",
            "text",
            "refuse (default): refuse a file or row that does not fit the schema; rescue: put columns and values that "
            "do not fit into the column _rescued as JSON; add_columns: add new columns and members of structs to the "
            "table",
            default="refuse",
            choices=("refuse", "rescue", "add_columns"),
        ),
        Parameter("partition_by", "names", "the partition columns of a new table", default=()),
        Parameter(
            "pattern",
            "text",
            "the names of the files below the folder, such as '**/*.csv.gz' (** is any number of folders); default: "
            "all files of the folder itself",
        ),
        Parameter("files_per_batch", "count", "files in a commit, at most 10000; default: 1", default=1),
        Parameter("bytes_per_batch", "bytes", "bytes of files in a commit, if it has several; default: any number"),
        Parameter(
            "order",
            "text",
            "by_name: new files have names after those of all earlier files, so settled files are not listed again",
            default="any",
            choices=("any", "by_name"),
        ),
        Parameter(
            "settle_seconds",
            "seconds",
            "leave files for a later run if they were modified less than so many seconds ago, or change their size "
            "during the run; default: 0",
            default=0.0,
        ),
        _TARGET_FILE_SIZE,
        Parameter(
            "refused",
            "text",
            "which refused files fail the job after the other files are loaded: once: those that it has refused "
            "(default); fail: also those that an earlier job has refused; report: none",
            default="once",
            choices=("once", "fail", "report"),
        ),
        Parameter(
            "give_up",
            "flag",
            "give up an unfinished batch whose files are lost; its other files are loaded again as new files. Refused "
            "if a run has decided to commit the batch, so that no file is loaded twice",
            default=False,
        ),
    ),
    "ingestion.load:Load.run",
    LoadResult,
    moves_bytes=True,
)
ERASE = Operation(
    "erase",
    "Delete rows from several tables in the given order. The job stops at the first delete that fails. Earlier deletes "
    "are kept, and the job can be run again.",
    (
        Parameter(
            "deletes_file",
            "file",
            'JSON: [{"table": URI, "predicate": SQL, "request": ID}, ...]. The tables\' history has the request id '
            "instead of the predicate, and the job prints no value of a predicate",
            required=True,
        ),
    ),
    "operations.dml.delete:delete",
    ChangeResult,
    moves_bytes=True,
)
CHECKPOINT = TableOperation(
    "checkpoint",
    "Write a checkpoint of the latest version, so that readers need not replay the log before it.",
    (_TABLE,),
    "operations.upkeep.checkpoint:checkpoint",
    OperationResult,
    moves_bytes=False,
)
VACUUM = TableOperation(
    "vacuum",
    "Delete files that were removed from the table longer ago than the retention, and files of this age to which the "
    "log does not refer.",
    (
        _TABLE,
        Parameter("retention_hours", "hours", "default: the table's delta.deletedFileRetentionDuration, else 168"),
        _DRY_RUN,
        Parameter(
            "enforce_retention_duration", "flag", "refuse a retention shorter than the table's own", default=True
        ),
        Parameter(
            "full",
            "flag",
            "list the table, and delete old files without a log entry, too (default)",
            default=True,
            opposite="lite",
        ),
        Parameter(
            "inventory",
            "locations",
            "a list of the stored objects, such as the inventory of a bucket, instead of a listing of the table; "
            "repeat the option for several files",
        ),
        Parameter("files_per_second", "rate", "the largest number of files deleted per second; default: no limit"),
        Parameter("keep_versions", "versions", "keep all files of these versions", default=()),
    ),
    "operations.upkeep.vacuum:vacuum",
    VacuumResult,
    moves_bytes=False,
    has_progress=True,
)
_PIN = Parameter("name", "text", "the name of the pin, such as model-2026-11", required=True)
PIN_VERSION = TableOperation(
    "pin_version",
    "Give a version of a Delta table a name, so that vacuum and log cleanup keep its files.",
    (
        _TABLE,
        _PIN,
        Parameter("version", "version", "the version, or a time in ISO 8601; default: the latest version"),
    ),
    "operations.upkeep.pins:pin_version",
    PinResult,
    moves_bytes=False,
)
RELEASE_VERSION = TableOperation(
    "release_version",
    "Delete the pin of a version of a Delta table, so that vacuum and log cleanup may delete its files.",
    (_TABLE, _PIN),
    "operations.upkeep.pins:release_version",
    PinResult,
    moves_bytes=False,
)
CLEANUP = TableOperation(
    "cleanup",
    "Delete log files that are older than delta.logRetentionDuration and that no remaining version needs.",
    (
        _TABLE,
        _DRY_RUN,
        Parameter(
            "enforce_retention_duration",
            "flag",
            "refuse a delta.logRetentionDuration that is shorter than delta.deletedFileRetentionDuration",
            default=True,
        ),
    ),
    "operations.upkeep.cleanup:cleanup",
    CleanupResult,
    moves_bytes=False,
)
REPAIR = TableOperation(
    "repair",
    "Find damage in a table's log and files, and repair what can be repaired.",
    (_TABLE, _DRY_RUN),
    "operations.upkeep.repair:repair",
    RepairResult,
    moves_bytes=False,
)
RESTORE = TableOperation(
    "restore",
    "Make a Delta table equal to an earlier version, in a new commit.",
    (
        _TABLE,
        Parameter("target", "version", "the version, or a time in ISO 8601; without a zone: UTC", required=True),
        Parameter("ignore_missing_files", "flag", "leave out files that do not exist any more", default=False),
        _DRY_RUN,
    ),
    "operations.restore:restore",
    RestoreResult,
    moves_bytes=False,
)
GENERATE = TableOperation(
    "generate",
    "Write manifests of the latest version, for programs that read Parquet and not the Delta log.",
    (_TABLE,),
    "operations.upkeep.generate:generate",
    OperationResult,
    moves_bytes=False,
)
ALTER = Operation(
    "alter",
    "Change columns, constraints, properties and features of a Delta table, without reading rows.",
    (_TABLE, Parameter("changes", "clauses", """the changes as JSON: [{"verb": {arguments}}, ...]""", required=True)),
    "table.verbs.alterer:TableAlterer.apply",
    OperationResult,
    moves_bytes=False,
)

#: Every operation by its name.
OPERATIONS: dict[str, Operation] = {
    value.name: value for value in list(globals().values()) if isinstance(value, Operation)
}
