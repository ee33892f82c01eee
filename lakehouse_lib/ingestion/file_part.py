"""A part of a source file that a task reads by itself, and the lines of its rows.

A task does not know how many lines precede its part. So the rows of a part have *provisional* lines: the line in the
part, and the number of the part in the bits above. When all parts are read, ``PartLines`` makes lines of the file of
them. Rows of the first part need no change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakehouse_lib.arrow.values import int64s, numbers_of

#: A provisional line has the line in its part in so many bits.
LINE_BITS = 40


@dataclass(frozen=True)
class FilePart:
    """A part of a source file: the lines that start in a range of its bytes, or some of its row groups or stripes.

    Attributes:
        number: 0 for the first part of each file; else unique in a batch.
        begin, end: the range. The ranges of all parts of a file cover it.
        columns: the columns in the header of the file, if it is CSV.
    """

    number: int
    begin: int
    end: int
    columns: tuple[str, ...] = ()

    @property
    def first_line(self) -> int:
        """The provisional number of its first line."""
        return (self.number << LINE_BITS) + 1

    def has_chunk(self, chunk: int, count: int, size: int) -> bool:
        """Whether a row group or stripe belongs to the part; each belongs to one part of the file.

        Args:
            chunk: its number in the file, which has ``count`` of them.
            size: the size of the file.
        """
        return self.begin <= chunk * size // count < self.end


@dataclass(frozen=True)
class PartLines:
    """The number of lines before each part of the files of a batch, by the part's number."""

    before: tuple[int, ...] = field(default=(0,))

    @classmethod
    def of(cls, parts: Iterable[tuple[str, FilePart, int]]) -> PartLines:
        """The lines before parts.

        Args:
            parts: file, part and its number of lines, for all parts, in the order of the lines of each file.
        """
        before, passed = {0: 0}, dict[str, int]()
        for file, part, lines in parts:
            start = passed.get(file, 0)
            if part.number:
                before[part.number] = start
            passed[file] = start + lines
        return cls(tuple(before.get(number, 0) for number in range(max(before) + 1)))

    def placed(self, rows: Any, name: str) -> Any:
        """Rows (a record batch) whose provisional lines in the column ``name`` are replaced by lines of the file."""
        provisional = numbers_of(rows.column(name), np.int64)
        lines = np.array(self.before, np.int64)[provisional >> LINE_BITS] + (provisional & ((1 << LINE_BITS) - 1))
        place = rows.schema.get_field_index(name)
        return rows.set_column(place, rows.schema.field(place), int64s(lines))
