"""The symbolic links in a table's folder. Reads and writes follow them. No verb deletes files behind a link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import strings, whole


@dataclass(frozen=True)
class SymbolicLinks:
    """The symbolic links below a table's root; only file systems have links.

    Attributes:
        root: the real path of the table's folder, without links.
        ends: the store path of each link -> the real path of its target; None: there are no links.
    """

    root: str = "/"
    ends: Mapping[str, str] | None = None

    def __bool__(self) -> bool:
        return bool(self.ends)

    def are_behind(self, paths: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Which store paths are a link or lead through a link."""
        return pc.is_in(paths, value_set=self._behind(paths)[0])

    def targets(self, paths: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The store paths, without links, of files below the root that these paths reach through a link."""
        return self._behind(paths)[1]

    def _behind(self, paths: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
        """The ``paths`` that are a link or lead through a link, and the files below the root that they reach."""
        nothing = strings([])
        if not self.ends:
            return nothing, nothing
        paths = whole(paths)
        # Resolve the folders and not the files, because a table has few folders.
        folders = pc.replace_substring_regex(paths, "/?[^/]*$", "").dictionary_encode()
        linked = pa.array([self._resolved(folder) != folder for folder in folders.dictionary.to_pylist()], pa.bool_())
        may_be = pc.or_(linked.take(folders.indices), pc.is_in(paths, value_set=strings(list(self.ends))))
        behind = paths.filter(may_be)
        real = [self._resolved(path) for path in behind.to_pylist()]
        return behind, strings([path for path in real if not path.startswith("/")])

    def _resolved(self, path: str) -> str:
        """A store path without links; absolute if it leads out of the root."""
        for _ in range(len(self.ends or ()) + 1):  # links may form a circle
            steps = path.split("/")
            for count in range(1, len(steps) + 1):
                end = (self.ends or {}).get("/".join(steps[:count]))
                if end is not None:
                    break
            else:
                return path
            path = "/".join([end, *steps[count:]]).removeprefix(f"{self.root.rstrip('/')}/")
        return path
