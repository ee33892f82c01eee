"""Functions of SQL that are computed from whole Arrow arrays, because an Arrow expression cannot compute them.

A kernel takes the node of the call and the values of its arguments for some rows, and returns the results for these
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from lakehouse_lib.expressions.ir import Function
from lakehouse_lib.expressions.kernels import nested, numbers, text, times

Kernel = Callable[[Function, Sequence[pa.Array]], pa.Array]

#: By the name of the function.
KERNELS: dict[str, Kernel] = {
    "add_months": times.months_added,
    "array": nested.array,
    "ceil": numbers.floor_or_ceil,
    "date_trunc": times.truncated,
    "floor": numbers.floor_or_ceil,
    "greatest": numbers.extreme,
    "last_day": times.last_day,
    "least": numbers.extreme,
    "lower": lambda _, arguments: text.lower(arguments[0]),
    "map": nested.map_of,
    "round": numbers.rounded,
    "struct": nested.struct,
    "trunc": times.truncated,
    "upper": lambda _, arguments: text.upper(arguments[0]),
}
