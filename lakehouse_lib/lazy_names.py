"""Packages that import the module of a name when the name is first used (PEP 562).

A verb then imports only the modules that it needs. The imports are most of the time of a short process, such as a
vacuum from the command line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def import_on_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Args:
        package: ``__name__`` of the package.
        modules: the module of each public name, below the package; with a dot in front: below its parent. A name must
            differ from the package's modules: Python stores an imported module in the package, under its name.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
