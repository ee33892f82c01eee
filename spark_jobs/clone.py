"""Clone a version of a table into a new table: deep (the data files are copied) or shallow (they are referred to)."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.catalogue import CLONE
from spark_jobs.job import EngineWork, Result, run_job
from spark_jobs.process.command_line import Arguments

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine


def arguments() -> Arguments:
    return Arguments(CLONE.name, CLONE.description, CLONE.parameters)


def prepare(options: Namespace) -> EngineWork:
    from lakehouse_lib.log.history import moment_of
    from lakehouse_lib.operations.files import total_size
    from lakehouse_lib.snapshot import load_snapshot
    from lakehouse_lib.store import open_store
    from lakehouse_lib.store.schemes import with_allowed_root

    version, settings = options.version, options.storage_options
    source = open_store(options.table, settings.get(options.table))
    if version is None or version.isdecimal():
        snapshot = load_snapshot(source, None if version is None else int(version))
    else:
        snapshot = load_snapshot(source, timestamp=moment_of(version, options.table))
    target_options = settings.get(options.target)
    if options.is_shallow:
        target_options = with_allowed_root(options.target, target_options, source.root)
    target = open_store(options.target, target_options)

    def run(engine: Engine) -> Result:
        result = CLONE.load()(snapshot, target, engine, is_shallow=options.is_shallow)
        names = {"table": options.target, "source": options.table, "source_version": snapshot.version}
        return {**result.to_dict(), **names}

    return EngineWork(run, snapshot, 0 if options.is_shallow else total_size(snapshot.files))


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
