"""The columns of a table: Delta types, their JSON and Arrow forms, enforcement and evolution."""

from lakehouse_lib.schema.evolution import merge, with_fields, with_members_of
from lakehouse_lib.schema.nesting import all_types
from lakehouse_lib.schema.rows.batches import align_batches
from lakehouse_lib.schema.rows.enforcement import (
    FLOATS,
    WHOLE_NUMBERS,
    Mismatch,
    align,
    are_castable,
    enforce,
    find_mismatches,
)
from lakehouse_lib.schema.rows.not_null import not_null_rules
from lakehouse_lib.schema.rows.row_rules import SHOWN_ROWS, RowRule, check_rows, constraint_violated
from lakehouse_lib.schema.rows.text_lengths import TextLength, text_length_rules
from lakehouse_lib.schema.table_layout import RowIdColumns, TableLayout
from lakehouse_lib.schema.types import (
    ArrayType,
    DataType,
    Field,
    MapType,
    PrimitiveType,
    Schema,
    StructType,
    VariantType,
)
from lakehouse_lib.schema.usable import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    check_feed_names,
    check_names,
    check_usable,
)

__all__ = [
    "CHANGE_TYPE",
    "COMMIT_TIMESTAMP",
    "COMMIT_VERSION",
    "FLOATS",
    "SHOWN_ROWS",
    "WHOLE_NUMBERS",
    "ArrayType",
    "DataType",
    "Field",
    "MapType",
    "Mismatch",
    "PrimitiveType",
    "RowIdColumns",
    "RowRule",
    "Schema",
    "StructType",
    "TableLayout",
    "TextLength",
    "VariantType",
    "align",
    "align_batches",
    "all_types",
    "are_castable",
    "check_feed_names",
    "check_names",
    "check_rows",
    "check_usable",
    "constraint_violated",
    "enforce",
    "find_mismatches",
    "merge",
    "not_null_rules",
    "text_length_rules",
    "with_fields",
    "with_members_of",
]
