"""The commands of ``lakehouse``: a module for each."""

from __future__ import annotations

from importlib import import_module

from lakehouse_lib.cli.command import Command

_MODULES = (
    "health",
    "plan",
    "maintain",
    "optimize",
    "z_order",
    "columns",
    "vacuum",
    "log_upkeep",
    "history",
    "detail",
    "repair",
    "erase",
    "discover",
    "registry",
    "completion",
)


def commands() -> list[Command]:
    """All commands, in the order of ``--help``."""
    return [command for module in _MODULES for command in import_module(f"{__name__}.{module}").COMMANDS]
