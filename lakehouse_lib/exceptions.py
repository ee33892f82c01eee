"""The errors that the ``deltalake`` package has, under its name of this module; ``errors`` has all of them."""

from lakehouse_lib.errors import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)

__all__ = ["CommitFailedError", "DeltaError", "DeltaProtocolError", "SchemaMismatchError", "TableNotFoundError"]
