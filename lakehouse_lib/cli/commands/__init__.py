"""The commands of ``lakehouse``, one or two in each module."""

from __future__ import annotations

from importlib import import_module

from lakehouse_lib.cli.command import Command

_MODULES = (
    "health",
    "maintenance.maintain",
    "maintenance.optimize",
    "maintenance.z_order",
    "maintenance.columns",
    "maintenance.vacuum",
    "maintenance.log_upkeep",
    "history",
    "detail",
    "maintenance.repair",
    "ingest",
    "erase",
    "discover",
    "registry",
    "completion",
)


def commands() -> list[Command]:
    """All commands, in the order of ``--help``."""
    return [command for module in _MODULES for command in import_module(f"{__name__}.{module}").COMMANDS]
