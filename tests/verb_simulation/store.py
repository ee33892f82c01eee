"""The simulated store with data files: a file is put when it is closed."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tests.simulation.store import SimulatedStore


class _Output(pa.BufferOutputStream):  # type: ignore[misc]  # pyarrow is untyped
    """A file in memory that is put as a whole when it is closed."""

    put: Callable[[bytes], None]

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue().to_pybytes()  # also closes it
            self.put(data)


class ParquetStore(SimulatedStore):
    """A store that engines can write to."""

    def open_output(self, path: str) -> pa.NativeFile:
        output = _Output()
        output.put = lambda data: self.put(path, data)
        return output
