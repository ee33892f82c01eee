"""Tables without a checkpoint, with large JSON commits of added files, as after a bulk load. They are made once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

from benchmarks.log import tables


class Commits(NamedTuple):
    """The shape of a table's log.

    Attributes:
        count: the number of commits.
        files: the number of files that each commit adds.
    """

    count: int
    files: int

    @property
    def name(self) -> str:
        return f"commits-{self.count}-{self.files}"


def make(home: Path, commits: Commits) -> Path:
    """The table's folder below ``home``; a missing one is made."""
    table = home / commits.name
    if table.exists():
        return table
    unfinished = home / f"{commits.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    log = unfinished / "_delta_log"
    log.mkdir(parents=True)
    shape = tables.Shape(commits.count * commits.files, parsed=False)
    for version in range(commits.count):
        with (log / f"{version:020d}.json").open("w") as file:
            lines = [{"commitInfo": {"timestamp": tables.START + version, "operation": "WRITE"}}]
            if version == 0:
                lines += [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata(shape)}]
            lines += tables.add_lines(shape, version * commits.files, commits.files)
            file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    unfinished.rename(table)
    return table


def metadata(shape: tables.Shape) -> dict[str, object]:
    """The metaData action for JSON, in which maps are objects and not lists as in a checkpoint."""
    action = tables.metadata(shape)
    return action | {"format": {"provider": "parquet", "options": {}}, "configuration": {}}
