"""Delta tables: the transaction log, and the verbs that maintain a table.

Classes and functions that the ``deltalake`` package has, too, have the same names here. A name is imported when it is
first used. So a sensor that only reads the latest version does not import pyarrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib import errors as _errors
from lakehouse_lib.distribution import VERSION
from lakehouse_lib.errors import *  # noqa: F403 - the module has only the errors
from lakehouse_lib.lazy_names import import_on_use

if TYPE_CHECKING:
    from lakehouse_lib.engine.arrow.engine import ArrowEngine as ArrowEngine
    from lakehouse_lib.engine.spark.engine import SparkEngine as SparkEngine
    from lakehouse_lib.engine.writer_properties import BloomFilterProperties as BloomFilterProperties
    from lakehouse_lib.engine.writer_properties import ColumnProperties as ColumnProperties
    from lakehouse_lib.engine.writer_properties import WriterProperties as WriterProperties
    from lakehouse_lib.operations.write.add_actions import AddAction as AddAction
    from lakehouse_lib.operations.write.file_actions import RemoveAction as RemoveAction
    from lakehouse_lib.protocol.actions import Protocol as Protocol
    from lakehouse_lib.protocol.actions import Transaction as Transaction
    from lakehouse_lib.query import QueryBuilder as QueryBuilder
    from lakehouse_lib.schema import ArrayType as ArrayType
    from lakehouse_lib.schema import DataType as DataType
    from lakehouse_lib.schema import Field as Field
    from lakehouse_lib.schema import MapType as MapType
    from lakehouse_lib.schema import PrimitiveType as PrimitiveType
    from lakehouse_lib.schema import Schema as Schema
    from lakehouse_lib.schema import StructType as StructType
    from lakehouse_lib.schema import VariantType as VariantType
    from lakehouse_lib.table.add_actions import create_table_with_add_actions as create_table_with_add_actions
    from lakehouse_lib.table.apply_changes import apply_changes as apply_changes
    from lakehouse_lib.table.convert import convert_to_deltalake as convert_to_deltalake
    from lakehouse_lib.table.delta_table import DeltaTable as DeltaTable
    from lakehouse_lib.table.metadata import Metadata as Metadata
    from lakehouse_lib.table.metadata import TableFeatures as TableFeatures
    from lakehouse_lib.table.write import write_deltalake as write_deltalake
    from lakehouse_lib.transaction import commit_metadata as commit_metadata
    from lakehouse_lib.transaction import engine_info as engine_info
    from lakehouse_lib.transaction.commit_properties import CommitProperties as CommitProperties
    from lakehouse_lib.transaction.hook_properties import PostCommitHookProperties as PostCommitHookProperties

#: The module of each name, below this package.
_MODULES = {
    "AddAction": "operations.write.add_actions",
    "ArrayType": "schema",
    "ArrowEngine": "engine.arrow.engine",
    "BloomFilterProperties": "engine.writer_properties",
    "ColumnProperties": "engine.writer_properties",
    "CommitProperties": "transaction.commit_properties",
    "DataType": "schema",
    "DeltaTable": "table.delta_table",
    "Field": "schema",
    "MapType": "schema",
    "Metadata": "table.metadata",
    "PostCommitHookProperties": "transaction.hook_properties",
    "PrimitiveType": "schema",
    "Protocol": "protocol.actions",
    "QueryBuilder": "query",
    "RemoveAction": "operations.write.file_actions",
    "Schema": "schema",
    "SparkEngine": "engine.spark.engine",
    "StructType": "schema",
    "TableFeatures": "table.metadata",
    "Transaction": "protocol.actions",
    "VariantType": "schema",
    "WriterProperties": "engine.writer_properties",
    "apply_changes": "table.apply_changes",
    "commit_metadata": "transaction",
    "convert_to_deltalake": "table.convert",
    "create_table_with_add_actions": "table.add_actions",
    "engine_info": "transaction",
    "write_deltalake": "table.write",
}

__version__ = VERSION
__all__ = [*_MODULES, "__version__", *(name for name in vars(_errors) if name.endswith("Error"))]
if not TYPE_CHECKING:  # with a __getattr__, mypy would accept every name
    __getattr__ = import_on_use(__name__, _MODULES)
