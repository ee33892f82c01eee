"""Blocks of rows, which readers of source files yield, and the error that refuses a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.quarantine import FaultyRecords
from lakehouse_lib.ingestion.sources.casts import type_name


@dataclass(frozen=True)
class NestedColumn:
    """A typed nested column of a block.

    Attributes:
        column: with NULL for values that do not fit, at any depth.
        checks: the faults in it, as (path of the member, reason, mask of the faulty rows).
    """

    column: Any
    checks: Sequence[tuple[str, str, NDArray[np.bool_]]]


@dataclass(frozen=True)
class TextBlock:
    """A block of rows as text.

    Attributes:
        texts: a string array for each column, in the schema's order.
        lines: returns the line where each row's record starts, int64, counted from 0 at the block's start.
        checks: the faults that the reader has found, as (column, reason, mask of the faulty rows).
        faulty: the records of this block that could not be split into columns, with lines as in ``lines``.
        line_count: the number of lines of the block.
        rescued: members of the column ``_rescued`` (``tasks.rescued``) with values that do not fit the schema.
        nested: the nested columns by name. Their ``texts`` only have a length and ``take``.
    """

    texts: Sequence[Any]
    lines: Callable[[], Any]
    checks: Sequence[tuple[str, str, Any]]
    faulty: FaultyRecords
    line_count: int
    rescued: Sequence[Any] = ()
    nested: Mapping[str, NestedColumn] = field(default_factory=dict)


@dataclass(frozen=True)
class TypedBlock:
    """A block of typed rows: as ``TextBlock``, and ``columns`` with the schema's types.

    Attributes:
        exact: parses rows again, by their positions in ``columns``. Its block has the texts of their values, which are
            needed if a row is faulty. None: the block has these ``texts``, and an entry in ``checks`` for each column
            that is not in ``nested``.
        rest: the records of the block that are not in ``columns``.
    """

    columns: Sequence[Any]
    lines: Callable[[], Any]
    checks: Sequence[tuple[str, str, Any]]
    texts: Sequence[Any]
    faulty: FaultyRecords
    line_count: int
    exact: Callable[[NDArray[np.int64]], TextBlock] | None = None
    rest: TextBlock | None = None
    nested: Mapping[str, NestedColumn] = field(default_factory=dict)


Parsed = TypeVar("Parsed", bound=TextBlock | TypedBlock)


@dataclass(frozen=True)
class RawBlock(Generic[Parsed]):
    """Whole records of a file, as text. A call parses them.

    Attributes:
        data: the text of the records.
        lines_before: the number of lines before the records in the first block of a file, such as those of a header.
        layout: the file's columns. Blocks with the same layout can be joined.
        parse: parses the block.
        parse_text: parses other records with this layout, without lines before them.
    """

    data: bytes
    lines_before: int
    layout: tuple[str, ...]
    parse: Callable[[], Parsed]
    parse_text: Callable[[bytes], Parsed]

    def __call__(self) -> Parsed:
        return self.parse()

    @property
    def line_count(self) -> int:
        """The number of lines of the records."""
        return self.data.count(b"\n") + (bool(self.data) and not self.data.endswith(b"\n"))


def joined_parser(blocks: Sequence[RawBlock[Parsed]]) -> Callable[[], Parsed] | None:
    """A function that parses the records of several files as one block; None: the files have several layouts.

    A block with a carriage return that is not part of a line break is not joined, because it may end a line.
    """
    first = blocks[0]
    if any(block.layout != first.layout or _has_carriage_return(block.data) for block in blocks):
        return None
    return partial(first.parse_text, b"".join(_lines(block.data for block in blocks)))


def _lines(texts: Iterable[bytes]) -> Iterable[bytes]:
    return (text if text.endswith(b"\n") or not text else text + b"\n" for text in texts)


def _has_carriage_return(data: bytes) -> bool:
    return b"\r" in data and data.count(b"\r") != data.count(b"\r\n")


def column_mismatches(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """A text for each column of a file that is missing, unknown or duplicate."""
    counts = Counter(names)
    return [
        *(f"{field.name} is missing, expected {type_name(field.type)}" for field in schema if field.name not in counts),
        *(f"{name} is not a column of the schema" for name in counts if name not in schema.names),
        *(f"{name} is the name of {count} columns, expected one" for name, count in counts.items() if count > 1),
    ]


def refusal(file: str, mismatches: Sequence[str]) -> SourceRefusedError:
    """The error that refuses a whole file; it names every column that does not fit the schema."""
    return SourceRefusedError(
        f"{file} does not fit the schema: {'; '.join(mismatches)}",
        hint="Correct the file and land it again, with order by_name under a new name; or change the schema",
    )
