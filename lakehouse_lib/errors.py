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
├── InvalidSchemaError            a schema that is none
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
CommitFailedError) mean here what they mean there.
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
    """

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        version: int | None = None,
        hint: str | None = None,
    ) -> None:
        # What is wrong may be a path or a name of any length.
        message = message if len(message) <= _LONGEST else f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
        super().__init__(message, table, version, hint)
        self.message = message
        self.table = table
        self.version = version
        self.hint = hint

    def __str__(self) -> str:
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
        return _rebuild, (type(self), self.message, self.table, self.version, self.hint)


def _rebuild(
    kind: type[DeltaError], message: str, table: str | None, version: int | None, hint: str | None
) -> DeltaError:
    return kind(message, table=table, version=version, hint=hint)


class TableNotFoundError(DeltaError): ...


class StoreError(DeltaError): ...


class ObjectNotFoundError(StoreError): ...


class StoreRefusedError(StoreError): ...


class CommitUnknownError(DeltaError): ...


class LogCorruptedError(DeltaError): ...


class VersionNotFoundError(DeltaError): ...


class DeltaProtocolError(DeltaError): ...


class UnsupportedFeatureError(DeltaProtocolError): ...


class PathOutsideTableError(DeltaError): ...


class SchemaMismatchError(DeltaError): ...


class InvalidSchemaError(DeltaError): ...


class InvalidPredicateError(DeltaError): ...


class InvalidArgumentError(DeltaError, ValueError): ...


class RetentionError(DeltaError): ...


class LedgerError(DeltaError): ...


class CommitFailedError(DeltaError): ...


class ConcurrentAppendError(CommitFailedError): ...


class ConcurrentDeleteReadError(CommitFailedError): ...


class ConcurrentDeleteDeleteError(CommitFailedError): ...


class MetadataChangedError(CommitFailedError): ...


class ProtocolChangedError(CommitFailedError): ...


class ConcurrentTransactionError(CommitFailedError): ...


class TooManyRetriesError(CommitFailedError): ...


class IngestError(DeltaError): ...


class LandingError(IngestError): ...


class SourceRefusedError(IngestError): ...


class SourceChangedError(IngestError): ...


class QualityError(IngestError): ...
