"""Every object that was ever stored, and a check that no data file is deleted while a version needs it."""

from __future__ import annotations

import json
import uuid

from lakehouse_lib.log import file_names
from tests.deletion_vector_bytes import from_z85
from tests.simulation.world import World
from tests.verb_simulation.history import Files, Violation, replayed

RETENTION = 3_600_000  # ms


class Archive:
    """Every object that was ever stored.

    Attributes:
        objects: path -> content, deleted objects included.
    """

    def __init__(self, world: World) -> None:
        self.objects: dict[str, bytes] = {}
        self._world = world
        self._files: list[frozenset[str]] = []
        self._written: list[float] = []
        self._change_files: dict[str, float] = {}  # path -> the time of its commit
        self._live: Files = {}

    def watch(self, path: str, data: bytes | None) -> None:
        """Check a change before it happens.

        Raises:
            Violation: a data file is deleted that the last version has, or a version that was the last within the
                retention; or a change file of a commit within the retention.
        """
        if data is None:
            self._deleted(path)
            return
        self.objects[path] = data
        if path == file_names.commit(len(self._files)):
            self._live = replayed(self._live, data, len(self._files))
            self._files.append(frozenset({path for path, _ in self._live} | _vectors(self._live)))
            self._written.append(self._world.now)
            actions = map(json.loads, data.decode().splitlines())
            self._change_files |= {action["cdc"]["path"]: self._world.now for action in actions if "cdc" in action}

    def was_needed(self, path: str) -> bool:
        """Whether a version has had the file, or it has the changes of a version."""
        return path in self._change_files or any(path in files for files in self._files)

    def _deleted(self, path: str) -> None:
        if self._change_files.get(path, float("-inf")) > self._world.now - RETENTION:
            raise Violation(f"{path} is deleted while its changes may still be read")
        for version, files in enumerate(self._files):
            is_last = version + 1 == len(self._files)
            if path in files and (is_last or self._written[version + 1] > self._world.now - RETENTION):
                raise Violation(f"{path} is deleted while version {version} may still be read")


def _vectors(files: Files) -> set[str]:
    """The files of deletion vectors."""
    descriptors = (add.get("deletionVector") or {} for add in files.values())
    named = (
        uuid.UUID(bytes=from_z85(descriptor["pathOrInlineDv"]))
        for descriptor in descriptors
        if descriptor.get("storageType") == "u"
    )
    return {f"deletion_vector_{name}.bin" for name in named}
