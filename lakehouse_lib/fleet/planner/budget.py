"""The budget of a maintenance run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lakehouse_lib.errors import InvalidArgumentError


@dataclass(frozen=True)
class Budget:
    """The most that a maintenance run may use.

    Attributes:
        bytes: the bytes that the run reads and writes, by prediction; None: no limit.
        seconds: the predicted duration of the steps, without the start of the engine; None: no limit.

    Raises:
        InvalidArgumentError: a limit is not positive.
    """

    bytes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("bytes", self.bytes), ("seconds", self.seconds)):
            if value is not None and not value > 0:
                raise InvalidArgumentError(
                    f"the budget's {name} is {value!r}; expected a positive number",
                    hint=f"Leave {name} out for no limit",
                    code="DELTA_BUDGET_TOO_SMALL",
                )

    @property
    def most_bytes(self) -> float:
        """``bytes`` as a number; infinity: no limit."""
        return math.inf if self.bytes is None else float(self.bytes)

    @property
    def most_seconds(self) -> float:
        """``seconds`` as a number; infinity: no limit."""
        return math.inf if self.seconds is None else float(self.seconds)
