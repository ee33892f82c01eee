"""A part of a source file that a task reads by itself, and the lines of its rows.

A task does not know how many lines precede its part. So the rows of a part have *provisional* line numbers: the lowest
``LINE_BITS`` bits are the line in the part, and the bits above are the number of the part. When all parts are read,
``PartLines`` replaces them by the line numbers in the file. The line numbers of the first part do not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakehouse_lib.arrow.values import int64s, numbers_of

#: The number of bits of a provisional line number that are the line in the part.
LINE_BITS = 40


@dataclass(frozen=True)
class FilePart:
    """A part of a source file: the lines that start in a range of its bytes, or some of its row groups or stripes.

    Attributes:
        number: 0 for the first part of each file; else unique in a batch.
        begin, end: the range, from ``begin`` (inclusive) to ``end`` (exclusive). The ranges of all parts of a file
            cover it.
        columns: the columns in the header of the file, if it is CSV.
    """

    number: int
    begin: int
    end: int
    columns: tuple[str, ...] = ()

    @property
    def first_line(self) -> int:
        """The provisional line number of the first line of the part."""
        return (self.number << LINE_BITS) + 1

    def has_chunk(self, chunk: int, count: int, size: int) -> bool:
        """Whether a row group or stripe belongs to the part. It belongs to exactly one part of the file.

        Args:
            chunk: the number of the row group or stripe in the file, from 0.
            count: the number of row groups or stripes of the file.
            size: the size of the file in bytes.
        """
        return self.begin <= chunk * size // count < self.end


@dataclass(frozen=True)
class PartLines:
    """The number of lines before each part of the files of a batch, by the part's number."""

    before: tuple[int, ...] = field(default=(0,))

    @classmethod
    def of(cls, parts: Iterable[tuple[str, FilePart, int]]) -> PartLines:
        """Count the lines before each part.

        Args:
            parts: (file name, part, number of its lines) for all parts. The parts of a file are in their order.
        """
        before, line_counts = {0: 0}, dict[str, int]()
        for file, part, lines in parts:
            start = line_counts.get(file, 0)
            if part.number:
                before[part.number] = start
            line_counts[file] = start + lines
        return cls(tuple(before.get(number, 0) for number in range(max(before) + 1)))

    def placed(self, rows: Any, name: str) -> Any:
        """Rows (a record batch) with lines of the file instead of the provisional lines in the column ``name``."""
        provisional = numbers_of(rows.column(name), np.int64)
        lines = np.array(self.before, np.int64)[provisional >> LINE_BITS] + (provisional & ((1 << LINE_BITS) - 1))
        place = rows.schema.get_field_index(name)
        return rows.set_column(place, rows.schema.field(place), int64s(lines))
