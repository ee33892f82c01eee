"""Every object that was ever stored, and a check that nothing is deleted while a version needs it."""

from __future__ import annotations

import json
import uuid

from lakehouse_lib.log import file_names
from tests.deletion_vector_bytes import from_z85
from tests.simulation.simulation import Simulation
from tests.verb_simulation.history import Files, Violation, replayed

RETENTION = 3_600_000  # ms


class Archive:
    """Every object that was ever stored.

    Attributes:
        objects: path -> content, deleted objects included.
        pinned: the version of each pin, from the answer to its actor until its release begins.
        was_cleaned: whether a commit file was deleted.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.objects: dict[str, bytes] = {}
        self.pinned: dict[str, int] = {}
        self.was_cleaned = False
        self._present: set[str] = set()
        self._simulation = simulation
        self._files: list[frozenset[str]] = []
        self._written: list[float] = []
        self._change_files: dict[str, float] = {}  # path -> the time of its commit
        self._live: Files = {}

    def watch(self, path: str, data: bytes | None) -> None:
        """Check a change before it happens.

        Raises:
            Violation: a data file is deleted that the last version has, or a version that was the last within the
                retention, or that is pinned; a change file of a commit within the retention; or a file of the log from
                which a pinned version is read.
        """
        if data is None:
            self._present.discard(path)
            self._deleted(path)
            return
        self._present.add(path)
        self.objects[path] = data
        if path == file_names.commit(len(self._files)):
            self._live = replayed(self._live, data, len(self._files))
            self._files.append(frozenset({path for path, _ in self._live} | _vectors(self._live)))
            self._written.append(self._simulation.now)
            actions = map(json.loads, data.decode().splitlines())
            self._change_files |= {action["cdc"]["path"]: self._simulation.now for action in actions if "cdc" in action}

    def pin(self, name: str, version: int) -> None:
        """Note a pin when its actor gets the answer.

        Raises:
            Violation: the version cannot be read any more.
        """
        self.pinned[name] = version
        if gone := self._files[version] - self._present:
            raise Violation(f"version {version} was pinned without its files {sorted(gone)}")
        self._check_log()

    def release(self, name: str) -> None:
        """Note the release of a pin before it begins."""
        del self.pinned[name]

    def was_needed(self, path: str) -> bool:
        """Whether a version has had the file, or it has the changes of a version."""
        return path in self._change_files or any(path in files for files in self._files)

    def _check_log(self) -> None:
        """Check that the log has a checkpoint or version 0, and all commits after it, for each pinned version."""
        for version in self.pinned.values():
            base = version
            while base and file_names.checkpoint(base) not in self._present:
                base -= 1
            first = base + 1 if file_names.checkpoint(base) in self._present else 0
            if gone := [each for each in range(first, version + 1) if file_names.commit(each) not in self._present]:
                raise Violation(f"the log lacks the commits {gone} of the pinned version {version}")

    def _deleted(self, path: str) -> None:
        if path.startswith(f"{file_names.LOG}/"):
            self.was_cleaned |= path.endswith(".json")
            self._check_log()
        if self._change_files.get(path, float("-inf")) > self._simulation.now - RETENTION:
            raise Violation(f"{path} is deleted while its changes may still be read")
        for version in self.pinned.values():
            if path in self._files[version]:
                raise Violation(f"{path} is deleted while version {version} is pinned")
        for version, files in enumerate(self._files):
            is_last = version + 1 == len(self._files)
            if path in files and (is_last or self._written[version + 1] > self._simulation.now - RETENTION):
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
