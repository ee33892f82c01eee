"""The errors of ``deltalake.exceptions``, under the same names; ``errors`` has all errors of this library."""

from lakehouse_lib.errors import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)

__all__ = ["CommitFailedError", "DeltaError", "DeltaProtocolError", "SchemaMismatchError", "TableNotFoundError"]
