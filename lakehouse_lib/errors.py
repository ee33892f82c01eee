"""The errors that the library raises.

DeltaError
├── TableNotFoundError            the location has no table: no folder, or a folder without a log
├── StoreError                    the store failed or refused a request
│   ├── ObjectNotFoundError       an object that should exist is missing
│   │   └── DataFileMissingError  a data file of the version is missing
│   └── StoreRefusedError         the store refused an object and stored nothing: no space, no permission, too large
├── CommitUnknownError            the store did not answer: the commit may or may not be in the log
├── LogCorruptedError             the log is damaged or contradicts itself: a gap, half a line, no protocol
├── VersionNotFoundError          the version or time does not exist, or its log entries were cleaned up
├── DeltaProtocolError            the protocol forbids the operation
│   └── UnsupportedFeatureError   the table uses a table feature that this library does not support
├── PathOutsideTableError         a log entry points outside the table
├── SchemaMismatchError           the data does not fit the table's schema
│   └── ConstraintViolatedError   rows violate NOT NULL or another rule of the table
├── InvalidSchemaError            the schema is not valid
│   ├── DuplicateColumnError      two columns have the same name, regardless of case
│   └── WrongKindOfTypeError      a type is of another kind, such as an array instead of a struct
├── InvalidPredicateError         the SQL condition does not parse, or names a column that does not exist
├── InvalidArgumentError          an argument is not valid
│   └── WrongArgumentTypeError    an argument has a Python type that is not accepted
├── NotSupportedError             this library does not have the operation
├── RetentionError                vacuum, cleanup_metadata, repair or purge would delete files that readers may need
├── LedgerError                   a document of the ledger is missing, edited, copied, or sealed with another key
├── CommitFailedError             nothing was committed; the table is unchanged
│   ├── ConcurrentAppendError     another writer added rows that this transaction should have read
│   ├── ConcurrentDeleteReadError another writer deleted rows that this transaction read
│   ├── ConcurrentDeleteDeleteError  another writer deleted files that this transaction deletes
│   ├── MetadataChangedError      the schema or the properties changed since the read version
│   ├── ProtocolChangedError      the protocol changed since the read version
│   ├── ConcurrentTransactionError   another commit has the same application id
│   └── TooManyRetriesError       in every attempt, another writer committed first
├── RegistryError                 the registry of tables is missing or not valid
│   └── RegistryUnreadableError   it cannot be read or parsed; another process may be writing it
└── IngestError                   a load failed
    ├── LandingError              the landing folder cannot be used
    ├── SourceRefusedError        the columns of a source file do not fit
    ├── SourceChangedError        a file has the name of a file that was loaded, but different content
    └── QualityError              the quality suite cannot be used, or a batch breaks a rule about the whole batch

TableNotFoundError, DeltaProtocolError, SchemaMismatchError and CommitFailedError have the same meaning as in the
``deltalake`` package. If that package raises a built-in error of Python, the error of this library is a subclass of
this built-in error: of ValueError for an invalid argument, schema or condition, of TypeError for a value of another
type, and of FileNotFoundError for a missing file. Each error has a stable ``code``; docs/errors.md lists the codes.
"""

from __future__ import annotations

from errno import ENOENT as _ENOENT
from typing import Any

_LONGEST = 4_000


class DeltaError(Exception):
    """The root of all errors of the library.

    Args:
        message: what is wrong, with the invalid value; the middle of a message of more than 4000 characters is left
            out.
        table: the table's location.
        version: the version that the error is about.
        hint: an instruction that solves the problem.
        code: the stable name of the condition, from docs/errors.md; default: the code of the class.
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
        # A message may quote a path or a name of any length.
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
        """The text without the code: what is wrong, the table and version, and the hint."""
        return f"{self.statement}. {self.hint}" if self.hint else self.statement

    @property
    def statement(self) -> str:
        """The text without the code and the hint: what is wrong, the table and version."""
        where = ", ".join(
            part
            for part in (
                f"table {self.table}" if self.table is not None else "",
                f"version {self.version}" if self.version is not None else "",
            )
            if part
        )
        return f"{self.message} ({where})" if where else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark workers, process pools); by default pickle drops keyword-only arguments.
        # The last element has the attributes that a subclass or a caller has set.
        parts = (type(self), self.message, self.table, self.version, self.hint, self.code)
        return _rebuild, parts, self.__dict__


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


class DataFileMissingError(ObjectNotFoundError, FileNotFoundError):
    code = "DELTA_DATA_FILE_MISSING"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        # OSError would set these attributes from its positional arguments.
        self.errno, self.strerror, self.filename, self.filename2 = _ENOENT, self.message, None, None


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


class InvalidSchemaError(DeltaError, ValueError):
    code = "DELTA_INVALID_SCHEMA"


class DuplicateColumnError(InvalidSchemaError, SchemaMismatchError):
    code = "DELTA_DUPLICATE_COLUMN"


class WrongKindOfTypeError(InvalidSchemaError, TypeError):
    code = "DELTA_WRONG_KIND_OF_TYPE"


class InvalidPredicateError(DeltaError, ValueError):
    code = "DELTA_INVALID_PREDICATE"


class InvalidArgumentError(DeltaError, ValueError):
    code = "DELTA_INVALID_ARGUMENT"


class WrongArgumentTypeError(InvalidArgumentError, TypeError):
    code = "DELTA_WRONG_ARGUMENT_TYPE"


class NotSupportedError(DeltaError, NotImplementedError):
    code = "DELTA_NOT_SUPPORTED"


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


class RegistryError(DeltaError, ValueError):
    code = "DELTA_REGISTRY_INVALID"


class RegistryUnreadableError(RegistryError):
    code = "DELTA_REGISTRY_UNREADABLE"


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
