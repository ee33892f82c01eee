"""Errors of the registry."""

from __future__ import annotations


class RegistryError(ValueError):
    """The registry is missing or not valid. The text has the code, the file, the key and the solution."""

    code = "DELTA_REGISTRY_INVALID"

    def __str__(self) -> str:
        return f"[{self.code}] {self.args[0]}"


class RegistryUnreadableError(RegistryError):
    """The registry cannot be read or parsed. A retry may help: another process may be writing the file."""
