"""Values that all tasks of a run share, such as the source of a merge."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Shared(Protocol):
    """A picklable reference to a shared value. Tasks contain the reference."""

    def load(self) -> Any:
        """Return the value."""


@dataclass(frozen=True)
class InTask:
    """A value that each task contains."""

    value: Any

    def load(self) -> Any:
        return self.value


@dataclass(frozen=True)
class InScratchFile:
    """A value in a file of a scratch folder, so that Spark's driver does not hold a copy for each task."""

    path: str

    @classmethod
    def write(cls, value: Any, folder: str) -> InScratchFile:
        """Write a value to a file in a scratch folder of this process."""
        path = Path(folder) / "shared"
        with path.open("wb") as file:
            pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
        return cls(str(path))

    def load(self) -> Any:
        with Path(self.path).open("rb") as file:
            return pickle.load(file)  # noqa: S301 - of the process that started the task, in a folder of its user
