"""The expectations about a load's batch as a whole that are translated."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse_lib.ingestion.gate.arguments import Arguments
from lakehouse_lib.ingestion.gate.table_rule import Measure

#: The readers of expectations, by their names.
EXPECTATIONS: dict[str, Callable[[Arguments], Measure]] = {}
