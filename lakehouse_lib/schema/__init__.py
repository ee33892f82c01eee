"""The columns of a table: Delta types, their JSON and Arrow forms, enforcement and evolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.lazy_names import import_on_use

if TYPE_CHECKING:
    from lakehouse_lib.schema.evolution import merge as merge
    from lakehouse_lib.schema.evolution import with_fields as with_fields
    from lakehouse_lib.schema.evolution import with_members_of as with_members_of
    from lakehouse_lib.schema.nesting import all_types as all_types
    from lakehouse_lib.schema.rows.batches import align_batches as align_batches
    from lakehouse_lib.schema.rows.enforcement import FLOATS as FLOATS
    from lakehouse_lib.schema.rows.enforcement import WHOLE_NUMBERS as WHOLE_NUMBERS
    from lakehouse_lib.schema.rows.enforcement import Mismatch as Mismatch
    from lakehouse_lib.schema.rows.enforcement import align as align
    from lakehouse_lib.schema.rows.enforcement import are_castable as are_castable
    from lakehouse_lib.schema.rows.enforcement import enforce as enforce
    from lakehouse_lib.schema.rows.enforcement import find_mismatches as find_mismatches
    from lakehouse_lib.schema.rows.not_null import not_null_rules as not_null_rules
    from lakehouse_lib.schema.rows.row_rules import SHOWN_ROWS as SHOWN_ROWS
    from lakehouse_lib.schema.rows.row_rules import RowRule as RowRule
    from lakehouse_lib.schema.rows.row_rules import check_rows as check_rows
    from lakehouse_lib.schema.rows.row_rules import constraint_violated as constraint_violated
    from lakehouse_lib.schema.rows.text_lengths import TextLength as TextLength
    from lakehouse_lib.schema.rows.text_lengths import text_length_rules as text_length_rules
    from lakehouse_lib.schema.table_layout import RowIdColumns as RowIdColumns
    from lakehouse_lib.schema.table_layout import TableLayout as TableLayout
    from lakehouse_lib.schema.types import ArrayType as ArrayType
    from lakehouse_lib.schema.types import DataType as DataType
    from lakehouse_lib.schema.types import Field as Field
    from lakehouse_lib.schema.types import MapType as MapType
    from lakehouse_lib.schema.types import PrimitiveType as PrimitiveType
    from lakehouse_lib.schema.types import Schema as Schema
    from lakehouse_lib.schema.types import StructType as StructType
    from lakehouse_lib.schema.types import VariantType as VariantType
    from lakehouse_lib.schema.usable import CHANGE_TYPE as CHANGE_TYPE
    from lakehouse_lib.schema.usable import COMMIT_TIMESTAMP as COMMIT_TIMESTAMP
    from lakehouse_lib.schema.usable import COMMIT_VERSION as COMMIT_VERSION
    from lakehouse_lib.schema.usable import check_feed_names as check_feed_names
    from lakehouse_lib.schema.usable import check_names as check_names
    from lakehouse_lib.schema.usable import check_usable as check_usable

#: The module of each name, below this package.
_MODULES = {
    "ArrayType": "types",
    "CHANGE_TYPE": "usable",
    "COMMIT_TIMESTAMP": "usable",
    "COMMIT_VERSION": "usable",
    "DataType": "types",
    "FLOATS": "rows.enforcement",
    "Field": "types",
    "MapType": "types",
    "Mismatch": "rows.enforcement",
    "PrimitiveType": "types",
    "RowIdColumns": "table_layout",
    "RowRule": "rows.row_rules",
    "SHOWN_ROWS": "rows.row_rules",
    "Schema": "types",
    "StructType": "types",
    "TableLayout": "table_layout",
    "TextLength": "rows.text_lengths",
    "VariantType": "types",
    "WHOLE_NUMBERS": "rows.enforcement",
    "align": "rows.enforcement",
    "align_batches": "rows.batches",
    "all_types": "nesting",
    "are_castable": "rows.enforcement",
    "check_feed_names": "usable",
    "check_names": "usable",
    "check_rows": "rows.row_rules",
    "check_usable": "usable",
    "constraint_violated": "rows.row_rules",
    "enforce": "rows.enforcement",
    "find_mismatches": "rows.enforcement",
    "merge": "evolution",
    "not_null_rules": "rows.not_null",
    "text_length_rules": "rows.text_lengths",
    "with_fields": "evolution",
    "with_members_of": "evolution",
}

__all__ = [*_MODULES]

if not TYPE_CHECKING:  # with a __getattr__, mypy would accept every name
    __getattr__ = import_on_use(__name__, _MODULES)
