"""The error that ends the demo, with the reason and a hint."""

from __future__ import annotations

from pathlib import Path


class DemoError(Exception):
    """The demo cannot go on.

    Args:
        message: the reason.
        hint: what the user can do, as an instruction.
        log: a log file with more information.
    """

    def __init__(self, message: str, *, hint: str | None = None, log: Path | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.log = log

    def __str__(self) -> str:
        parts = [self.message.rstrip(".") + ".", self.hint or "", f"Log: {self.log}" if self.log else ""]
        return " ".join(part for part in parts if part)
