"""Every error the library raises.

DeltaError
├── TableNotFoundError            no table there, or a folder without a log
├── StoreError                    the store failed or refused
│   ├── ObjectNotFoundError       an object that should be there is not
│   └── StoreRefusedError         it would not take an object, and stored nothing: no space, no permission, too large
├── CommitUnknownError            the store did not say: committed or not, the log will show
├── LogCorruptedError             torn or contradictory log: a gap, half a line, no protocol
├── VersionNotFoundError          a version or time that never was, or is cleaned up
├── DeltaProtocolError            the protocol forbids it
│   └── UnsupportedFeatureError   a table feature this library does not have
├── PathOutsideTableError         a log entry that points out of the table
├── SchemaMismatchError           data does not fit the table's schema
│   └── ConstraintViolatedError   rows violate NOT NULL or another rule of the table
├── InvalidSchemaError            a schema that is not valid
├── InvalidPredicateError         SQL that does not parse, or names no column
├── InvalidArgumentError          a value no verb can take
├── RetentionError                vacuum, cleanup_metadata, repair, purge: what a reader may need would be deleted
├── LedgerError                   a document of the ledger is missing, edited, copied, or sealed with another key
├── CommitFailedError             not committed; the table is as it was
│   ├── ConcurrentAppendError     another writer added rows we should have seen
│   ├── ConcurrentDeleteReadError another writer deleted rows we read
│   ├── ConcurrentDeleteDeleteError  another writer deleted files we delete
│   ├── MetadataChangedError      the schema or properties changed meanwhile
│   ├── ProtocolChangedError      the protocol changed meanwhile
│   ├── ConcurrentTransactionError   the same application id committed meanwhile
│   └── TooManyRetriesError       every attempt lost the race
└── IngestError                   a load that did not happen
    ├── LandingError              the landing folder cannot be used
    ├── SourceRefusedError        a source file whose columns do not fit
    ├── SourceChangedError        a loaded file name that came back with other content
    └── QualityError              the quality suite is unusable or the data failed it as a whole

The names that the ``deltalake`` package has (TableNotFoundError, DeltaProtocolError, SchemaMismatchError,
CommitFailedError) mean here what they mean there. Each error has a stable ``code``; docs/errors.md lists them.
"""

from __future__ import annotations

_LONGEST = 4_000


class DeltaError(Exception):
    """Root of the tree.

    Args:
        message: what is wrong, with the offending value; the middle of one that fills screens is left out.
        table: the table's location.
        version: the version concerned.
        hint: the way out, as an instruction.
        code: a stable name of the condition, of those in docs/errors.md; default the class's own.
    """

    code: str = "DELTA_ERROR"

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        version: int | None = None,
        hint: str | None = None,
        code: str | None = None,
    ) -> None:
        # What is wrong may be a path or a name of any length.
        message = message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
        super().__init__(message, table, version, hint, code)
        self.message = message
        self.table = table
        self.version = version
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"[{self.code}] {self.description}"

    @property
    def description(self) -> str:
        """The text without the code: what is wrong, where, and the way out."""
        where = ", ".join(
            part
            for part in (
                f"table {self.table}" if self.table is not None else "",
                f"version {self.version}" if self.version is not None else "",
            )
            if part
        )
        text = f"{self.message} ({where})" if where else self.message
        return f"{text}. {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark workers, thread pools), and keyword-only arguments do not by default.
        return _rebuild, (type(self), self.message, self.table, self.version, self.hint, self.code)


def _rebuild(
    kind: type[DeltaError], message: str, table: str | None, version: int | None, hint: str | None, code: str
) -> DeltaError:
    return kind(message, table=table, version=version, hint=hint, code=code)


class TableNotFoundError(DeltaError):
    code = "DELTA_TABLE_NOT_FOUND"


class StoreError(DeltaError):
    code = "DELTA_STORE_ERROR"


class ObjectNotFoundError(StoreError):
    code = "DELTA_OBJECT_NOT_FOUND"


class StoreRefusedError(StoreError):
    code = "DELTA_STORE_REFUSED"


class CommitUnknownError(DeltaError):
    code = "DELTA_COMMIT_UNKNOWN"


class LogCorruptedError(DeltaError):
    code = "DELTA_LOG_CORRUPTED"


class VersionNotFoundError(DeltaError):
    code = "DELTA_VERSION_NOT_FOUND"


class DeltaProtocolError(DeltaError):
    code = "DELTA_PROTOCOL_VIOLATION"


class UnsupportedFeatureError(DeltaProtocolError):
    code = "DELTA_UNSUPPORTED_FEATURE"


class PathOutsideTableError(DeltaError):
    code = "DELTA_PATH_OUTSIDE_TABLE"


class SchemaMismatchError(DeltaError):
    code = "DELTA_SCHEMA_MISMATCH"


class ConstraintViolatedError(SchemaMismatchError):
    code = "DELTA_CONSTRAINT_VIOLATED"


class InvalidSchemaError(DeltaError):
    code = "DELTA_INVALID_SCHEMA"


class InvalidPredicateError(DeltaError):
    code = "DELTA_INVALID_PREDICATE"


class InvalidArgumentError(DeltaError, ValueError):
    code = "DELTA_INVALID_ARGUMENT"


class RetentionError(DeltaError):
    code = "DELTA_RETENTION_TOO_SHORT"


class LedgerError(DeltaError):
    code = "DELTA_LEDGER_INVALID"


class CommitFailedError(DeltaError):
    code = "DELTA_COMMIT_FAILED"


class ConcurrentAppendError(CommitFailedError):
    code = "DELTA_CONCURRENT_APPEND"


class ConcurrentDeleteReadError(CommitFailedError):
    code = "DELTA_CONCURRENT_DELETE_READ"


class ConcurrentDeleteDeleteError(CommitFailedError):
    code = "DELTA_CONCURRENT_DELETE_DELETE"


class MetadataChangedError(CommitFailedError):
    code = "DELTA_METADATA_CHANGED"


class ProtocolChangedError(CommitFailedError):
    code = "DELTA_PROTOCOL_CHANGED"


class ConcurrentTransactionError(CommitFailedError):
    code = "DELTA_CONCURRENT_TRANSACTION"


class TooManyRetriesError(CommitFailedError):
    code = "DELTA_TOO_MANY_RETRIES"


class IngestError(DeltaError):
    code = "DELTA_INGEST_FAILED"


class LandingError(IngestError):
    code = "DELTA_LANDING_INVALID"


class SourceRefusedError(IngestError):
    code = "DELTA_SOURCE_REFUSED"


class SourceChangedError(IngestError):
    code = "DELTA_SOURCE_CHANGED"


class QualityError(IngestError):
    code = "DELTA_QUALITY_FAILED"
