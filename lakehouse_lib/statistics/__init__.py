"""Statistics of data files (PROTOCOL.md, section Per-file Statistics): written from Parquet footers, read as Arrow."""

from lakehouse_lib.statistics.as_written import WrittenStatistics
from lakehouse_lib.statistics.bounds import Bounds, bounds_of, num_records
from lakehouse_lib.statistics.column_range import STRING_PREFIX, ColumnRange, has_bounds, of_values, stats_text
from lakehouse_lib.statistics.columns import ColumnPath, StatisticsColumns, indexed_columns, leaves
from lakehouse_lib.statistics.floats import FloatRange, ParquetPath, float_ranges, footer_columns, parquet_leaves, union
from lakehouse_lib.statistics.footer import from_footer
from lakehouse_lib.statistics.json_form import with_loose_bounds, with_missing
from lakehouse_lib.statistics.struct_form import stats_json, struct_bounds

__all__ = [
    "STRING_PREFIX",
    "Bounds",
    "ColumnPath",
    "ColumnRange",
    "FloatRange",
    "ParquetPath",
    "StatisticsColumns",
    "WrittenStatistics",
    "bounds_of",
    "float_ranges",
    "footer_columns",
    "from_footer",
    "has_bounds",
    "indexed_columns",
    "leaves",
    "num_records",
    "of_values",
    "parquet_leaves",
    "stats_json",
    "stats_text",
    "struct_bounds",
    "union",
    "with_loose_bounds",
    "with_missing",
]
