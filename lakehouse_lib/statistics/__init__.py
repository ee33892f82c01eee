"""Statistics of data files (PROTOCOL.md, section Per-file Statistics): written from Parquet footers, read as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.lazy_names import import_on_use

if TYPE_CHECKING:
    from lakehouse_lib.statistics.as_written import WrittenStatistics as WrittenStatistics
    from lakehouse_lib.statistics.bounds import Bounds as Bounds
    from lakehouse_lib.statistics.bounds import bounds_of as bounds_of
    from lakehouse_lib.statistics.bounds import num_records as num_records
    from lakehouse_lib.statistics.column_range import STRING_PREFIX as STRING_PREFIX
    from lakehouse_lib.statistics.column_range import ColumnRange as ColumnRange
    from lakehouse_lib.statistics.column_range import has_bounds as has_bounds
    from lakehouse_lib.statistics.column_range import of_values as of_values
    from lakehouse_lib.statistics.column_range import stats_text as stats_text
    from lakehouse_lib.statistics.columns import ColumnPath as ColumnPath
    from lakehouse_lib.statistics.columns import StatisticsColumns as StatisticsColumns
    from lakehouse_lib.statistics.columns import indexed_columns as indexed_columns
    from lakehouse_lib.statistics.columns import leaves as leaves
    from lakehouse_lib.statistics.floats import FloatRange as FloatRange
    from lakehouse_lib.statistics.floats import ParquetPath as ParquetPath
    from lakehouse_lib.statistics.floats import float_ranges as float_ranges
    from lakehouse_lib.statistics.floats import footer_columns as footer_columns
    from lakehouse_lib.statistics.floats import parquet_leaves as parquet_leaves
    from lakehouse_lib.statistics.floats import union as union
    from lakehouse_lib.statistics.footer import from_footer as from_footer
    from lakehouse_lib.statistics.json_form import with_loose_bounds as with_loose_bounds
    from lakehouse_lib.statistics.json_form import with_missing as with_missing
    from lakehouse_lib.statistics.struct_form import stats_json as stats_json
    from lakehouse_lib.statistics.struct_form import struct_bounds as struct_bounds

#: The module of each name, below this package.
_MODULES = {
    "Bounds": "bounds",
    "ColumnPath": "columns",
    "ColumnRange": "column_range",
    "FloatRange": "floats",
    "ParquetPath": "floats",
    "STRING_PREFIX": "column_range",
    "StatisticsColumns": "columns",
    "WrittenStatistics": "as_written",
    "bounds_of": "bounds",
    "float_ranges": "floats",
    "footer_columns": "floats",
    "from_footer": "footer",
    "has_bounds": "column_range",
    "indexed_columns": "columns",
    "leaves": "columns",
    "num_records": "bounds",
    "of_values": "column_range",
    "parquet_leaves": "floats",
    "stats_json": "struct_form",
    "stats_text": "column_range",
    "struct_bounds": "struct_form",
    "union": "floats",
    "with_loose_bounds": "json_form",
    "with_missing": "json_form",
}

__all__ = [*_MODULES]

if not TYPE_CHECKING:  # with a __getattr__, mypy would accept every name
    __getattr__ = import_on_use(__name__, _MODULES)
