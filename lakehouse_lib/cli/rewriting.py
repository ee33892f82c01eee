"""Commands that rewrite the files of tables: the prediction, and with ``--run`` the verb and its metrics."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue.operation import TableOperation
from lakehouse_lib.cli.command import Report
from lakehouse_lib.cli.engines import engine_of
from lakehouse_lib.cli.progress import progress
from lakehouse_lib.cli.steps import show_steps
from lakehouse_lib.cli.tables import on_tables

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.expressions import Predicate
    from lakehouse_lib.fleet.planner.step import Step
    from lakehouse_lib.fleet.table_run import MaintainedTable
    from lakehouse_lib.snapshot import Snapshot

#: Plans the verb on a table: the step, or None if no file needs to be rewritten.
Predict = Callable[["MaintainedTable", "Snapshot"], "Step | None"]
#: The arguments of the verb on a table.
Values = Callable[["MaintainedTable"], Mapping[str, Any]]


def partitions_of(arguments: Namespace, snapshot: Snapshot) -> Predicate | None:
    """The predicate of ``--where``; None: all partitions."""
    from lakehouse_lib.expressions import parse

    return None if arguments.where is None else parse(arguments.where, snapshot.schema, table=snapshot.store.root)


def rewrite(arguments: Namespace, operation: TableOperation, predict: Predict, values: Values) -> Report:
    """Rewrite the files of each table with ``--run``; without it, print the predictions."""
    command = arguments.command.name
    if not arguments.run:
        return _dry_run(command, arguments, predict)
    from lakehouse_lib.snapshot import load_snapshot

    with engine_of(arguments) as engine, progress("tables") as bar:

        def work(table: MaintainedTable) -> dict[str, Any]:
            snapshot = load_snapshot(table.store)
            if predict(table, snapshot) is None:  # so that a table with nothing to do starts no Spark
                return {"read_version": snapshot.version, "version": None, "metrics": {}}
            on_progress = bar.observer(table.name)
            done = operation.run(snapshot, engine(), **values(table), on_progress=on_progress)
            result: dict[str, Any] = done.to_dict()
            return {name: value for name, value in result.items() if name != "table"}

        tables = on_tables(arguments, work, changes=True, bar=bar)

    def show(terminal: Terminal) -> None:
        from lakehouse_lib.cli.terminal import Size

        rows = []
        for name, result in tables.successes:
            metrics = result["metrics"]
            rows.append(
                (
                    name,
                    result["version"],
                    metrics.get("numRemovedFiles", 0),
                    metrics.get("numAddedFiles", 0),
                    Size(metrics.get("numRemovedBytes", 0)),
                    Size(metrics.get("numAddedBytes", 0)),
                )
            )
        if rows:
            terminal.rows(("table", "new version", "files", "new files", "read", "written"), rows)

    return Report(tables.document(command, dry_run=False), show, tables.errors)


def _dry_run(command: str, arguments: Namespace, predict: Predict) -> Report:
    def look(table: MaintainedTable) -> dict[str, Any]:
        from lakehouse_lib.snapshot import load_snapshot

        snapshot = load_snapshot(table.store)
        snapshot.check_writable()
        step = predict(table, snapshot)
        return {"read_version": snapshot.version, "step": None if step is None else step.to_dict()}

    tables = on_tables(arguments, look)
    steps = [result["step"] for _, result in tables.successes if result["step"] is not None]

    def show(terminal: Terminal) -> None:
        if steps:
            show_steps(terminal, steps)
            terminal.line()
            terminal.line("Nothing was changed; --run rewrites the files.")
        elif tables.successes:
            terminal.line("No file needs to be rewritten.")

    return Report(tables.document(command, dry_run=True), show, tables.errors, has_work=bool(steps))
