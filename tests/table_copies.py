"""Copies of tables that a process of the tests builds once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

Build = Callable[[Path], None]
CopyOf = Callable[[Build, Path], Path]


class TableCopies:
    """The tables built in one process, a folder for each function that builds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: dict[Build, Path] = {}

    def copy(self, build: Build, path: Path) -> Path:
        """Copy to ``path`` what ``build`` puts into a folder, times of the files included, and return ``path``."""
        if build not in self._built:
            root = self._folder / str(len(self._built))
            build(root)
            self._built[build] = root
        return shutil.copytree(self._built[build], path, dirs_exist_ok=True)
