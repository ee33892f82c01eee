"""Update, delete and insert rows of a table by the rows of another table, in one commit."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from lakehouse_lib.catalogue import MERGE_ROWS
from spark_jobs.job import EngineWork, Result, require_predicate, run_job
from spark_jobs.process.command_line import Arguments

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine


def arguments() -> Arguments:
    return Arguments(MERGE_ROWS.name, MERGE_ROWS.description, MERGE_ROWS.parameters)


def prepare(options: Namespace) -> EngineWork:
    from lakehouse_lib import DeltaTable
    from lakehouse_lib.operations.files import total_size
    from lakehouse_lib.snapshot import load_snapshot
    from lakehouse_lib.store import open_store
    from lakehouse_lib.table.verbs.merger import check_clauses
    from lakehouse_lib.transaction.commit_properties import single_commit

    require_predicate(options.predicate, options.table)
    check_clauses(options.clauses, table=options.table)
    settings = options.storage_options
    # Both tables are opened before Spark starts, so that a missing table is reported at once.
    snapshot = load_snapshot(open_store(options.table, settings.get(options.table)))
    source = DeltaTable(options.source, storage_options=settings.get(options.source))
    source_files = load_snapshot(open_store(options.source, settings.get(options.source)), source.version()).files

    def run(engine: Engine) -> Result:
        table = DeltaTable(options.table, storage_options=settings.get(options.table), engine=engine)
        merger = table.merge(
            source,
            options.predicate,
            source_alias=options.source_alias,
            target_alias=options.target_alias,
            merge_schema=options.merge_schema,
            commit_properties=single_commit(options.app_transaction),
        )
        return {**merger.add_clauses(options.clauses).run().to_dict(), "table": options.table}

    return EngineWork(run, snapshot, total_size(source_files))


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
