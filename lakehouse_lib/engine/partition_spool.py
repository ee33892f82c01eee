"""Rows gathered by partition in bounded memory. Rows that exceed the memory are stored in scratch files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from lakehouse_lib.errors import StoreError

#: The partition values of a partition, in the order of the partition columns.
Values = tuple[str | None, ...]


class _Place(NamedTuple):
    """Record batches of a scratch file, from ``start`` to before ``end``."""

    file: Path
    start: int
    end: int


class PartitionSpool:
    """A store of rows that returns them partition by partition. All rows have one schema.

    When more than ``memory`` bytes are pending, all pending rows are written to one scratch file, sorted by partition.

    Args:
        folder: an empty folder for scratch files; its disk needs room for all rows.
        memory: the number of bytes of rows that may be pending in memory.
    """

    def __init__(self, folder: str, memory: int) -> None:
        self._folder = Path(folder)
        self._memory = memory
        self._pending: dict[Values, list[pa.Table]] = {}
        self._pending_bytes = 0
        self._places: dict[Values, list[_Place]] = {}
        self._files = 0

    def add(self, values: Values, rows: pa.Table) -> None:
        """Add rows of the partition with these values.

        Raises:
            StoreError: a scratch file cannot be written, for example because the disk is full.
        """
        self._pending.setdefault(values, []).append(rows)
        self._places.setdefault(values, [])
        self._pending_bytes += rows.nbytes
        if self._pending_bytes > self._memory:
            self._store()

    def partitions(self) -> Iterator[tuple[Values, Iterator[pa.Table]]]:
        """The partitions in the order in which they were first added, each with its rows in the order of ``add``."""
        for values in self._places:
            yield values, self._rows(values)

    def _rows(self, values: Values) -> Iterator[pa.Table]:
        for place in self._places[values]:
            with pa.memory_map(str(place.file)) as source:
                reader = pa.ipc.open_file(source)
                for number in range(place.start, place.end):
                    yield pa.Table.from_batches([reader.get_batch(number)])
        yield from self._pending.get(values, ())

    def _store(self) -> None:
        file = self._folder / f"{self._files}.arrow"
        try:
            self._write(file)
        except OSError as error:  # a full disk
            raise StoreError(
                f"the scratch file {file} cannot be written: {error}",
                hint="Set TMPDIR to a folder on a disk with room for all rows of the write, or "
                "delta.autoOptimize.optimizeWrite to false",
            ) from error
        self._files += 1
        self._pending, self._pending_bytes = {}, 0

    def _write(self, file: Path) -> None:
        schema = next(iter(self._pending.values()))[0].schema
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        end = 0
        with pa.ipc.new_file(str(file), schema, options=options) as writer:
            for values, tables in self._pending.items():
                start = end
                for batch in pa.concat_tables(tables).combine_chunks().to_batches():
                    writer.write_batch(batch)
                    end += 1
                self._places[values].append(_Place(file, start, end))
