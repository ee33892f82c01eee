"""The files and lines that the rows of a parsed block come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import int64s, literal, numbers_of, strings


@dataclass(frozen=True)
class LineOrigins:
    """The origins of the lines of a block, which are counted from 0 over all files in it.

    Attributes:
        files: the names of the files in the block, in order.
        starts: the line of the block where each file's part starts.
        lines: the number of that line in the file.
    """

    files: tuple[str, ...]
    starts: tuple[int, ...]
    lines: tuple[int, ...]

    def of(self, lines: Any) -> tuple[Any, Any]:
        """The file, and the line in it, of each of these lines of the block (int64)."""
        if len(self.files) == 1:
            offset = literal(self.lines[0] - self.starts[0], pa.int64())
            return pa.repeat(literal(self.files[0], pa.string()), len(lines)), pc.add(lines, offset)
        numbers = numbers_of(lines, np.int64)
        places = np.searchsorted(np.array(self.starts), numbers, "right") - 1
        offsets = np.array(self.lines) - np.array(self.starts)
        return strings(self.files).take(int64s(places)), int64s(numbers + offsets[places])
