"""What a reader of source files hands to the parse task, and how it refuses a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.quarantine import FaultyRecords
from lakehouse_lib.ingestion.sources.casts import type_name


@dataclass(frozen=True)
class TextBlock:
    """Some rows of a source file, as text.

    Attributes:
        texts: a string array a column, in the schema's order.
        lines: where each row's record starts, int64.
        checks: (column, reason, mask of the rows where it holds) of what the reader found wrong.
        faulty: records of this stretch of the file that have no row here.
    """

    texts: Sequence[Any]
    lines: Any
    checks: Sequence[tuple[str, str, Any]]
    faulty: FaultyRecords


@dataclass(frozen=True)
class TypedBlock:
    """Some rows of a source file that came typed (Parquet): as ``TextBlock``, and ``columns`` of the schema's types."""

    columns: Sequence[Any]
    lines: Any
    checks: Sequence[tuple[str, str, Any]]
    texts: Sequence[Any]
    faulty: FaultyRecords


def column_mismatches(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """What is wrong with a file's column names, one text a column: missing, unknown, or there more than once."""
    counts = Counter(names)
    return [
        *(
            f"{field.name}: expected {type_name(field.type)}, got no such column"
            for field in schema
            if field.name not in counts
        ),
        *(f"{name}: expected no such column, got one" for name in counts if name not in schema.names),
        *(f"{name}: expected once, got {count} times" for name, count in counts.items() if count > 1),
    ]


def refusal(file: str, mismatches: Sequence[str]) -> SourceRefusedError:
    """The error that refuses a whole file and names every column that does not fit."""
    return SourceRefusedError(
        f"{file} does not fit the schema: {'; '.join(mismatches)}",
        hint="Correct the file and land it again under the same name, or change the schema",
    )
