"""Apply the change events that were added to a Delta table since the last run to another Delta table."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.catalogue import APPLY_CHANGES
from spark_jobs.job import EngineWork, FailedAfterWork, Result, require_predicate, run_job
from spark_jobs.process.command_line import Arguments

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine


def arguments() -> Arguments:
    return Arguments(APPLY_CHANGES.name, APPLY_CHANGES.description, APPLY_CHANGES.parameters)


def prepare(options: Namespace) -> EngineWork | Result:
    """The part of the job that reads events; the result, without Spark, if there are no new events."""
    from lakehouse_lib.errors import DeltaError
    from lakehouse_lib.ingestion.change_events.follow import applied_version, follow_events
    from lakehouse_lib.ingestion.change_events.rules import ChangeRules
    from lakehouse_lib.operations.results import ChangeResult
    from lakehouse_lib.snapshot import load_snapshot
    from lakehouse_lib.store import open_store

    if options.apply_as_deletes is not None:
        require_predicate(options.apply_as_deletes, options.table)
    rules = ChangeRules(
        tuple(options.keys),
        options.sequence_by,
        options.apply_as_deletes,
        tuple(options.except_columns),
        options.ignore_null_updates,
        options.stored_as_scd_type,
    )
    settings = options.storage_options
    location = options.deleted_keys or f"{options.table.rstrip('/')}_deleted_keys"
    table = open_store(options.table, settings.get(options.table))
    events = open_store(options.events, settings.get(options.events))
    deleted_keys = open_store(location, settings.get(location, settings.get(options.table)))
    latest = load_snapshot(events)
    if applied_version(table, latest) == latest.version:
        version = load_snapshot(table).version
        return {**ChangeResult(table.root, version, None, {}).to_dict(), "table": options.table}

    def run(engine: Engine) -> Result:
        results: list[ChangeResult] = []
        try:
            result = follow_events(
                table,
                events,
                rules,
                engine,
                deleted_keys=deleted_keys,
                merges_schema=options.merge_schema,
                on_commit=results.append,
            )
        except DeltaError as error:
            if not results:
                raise
            raise FailedAfterWork(error, {**results[-1].to_dict(), "table": options.table}) from error
        return {**result.to_dict(), "table": options.table}

    return EngineWork(run, latest)


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
