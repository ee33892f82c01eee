"""The function that the ``deltalake`` package has in its module ``writer``."""

from lakehouse_lib.table.write import write_deltalake

__all__ = ["write_deltalake"]
