"""The names that the ``deltalake`` package has in its module ``writer``."""

from lakehouse_lib.engine.writer_properties import BloomFilterProperties, ColumnProperties, WriterProperties
from lakehouse_lib.table.convert import convert_to_deltalake
from lakehouse_lib.table.write import write_deltalake

__all__ = ["BloomFilterProperties", "ColumnProperties", "WriterProperties", "convert_to_deltalake", "write_deltalake"]
