"""``lakehouse health``: the state of tables, from their logs alone."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import COMPACT, Z_ORDER
from lakehouse_lib.catalogue.operation import Parameter
from lakehouse_lib.cli.command import Command, Report, UsageError, add_exit_code
from lakehouse_lib.cli.fleet_plan import RECORDS
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.cli.tables import TableResults, add_tables, on_tables, registry_of, with_policy
from lakehouse_lib.command_options import add_optional, add_parameter

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.fleet.health import Health
    from lakehouse_lib.fleet.health.record import HealthRecord
    from lakehouse_lib.fleet.table_run import MaintainedTable

#: At most this many writers are printed.
_WRITERS = 3


def configure(parser: ArgumentParser) -> None:
    add_tables(parser)
    add_optional(parser, Z_ORDER, "columns")
    add_optional(parser, COMPACT, "target_file_size")
    add_parameter(
        parser, Parameter("record", "flag", "append the metrics and the score to the history of health", default=False)
    )
    add_parameter(parser, RECORDS)
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Report the metrics of each table and the verbs that are due. ``--record`` also records the metrics."""

    history = _history(arguments)
    measurements: list[tuple[str, Health]] = []

    def measure(table: MaintainedTable) -> dict[str, Any]:
        table = with_policy(table, cluster_by=arguments.columns, target_file_size=arguments.target_file_size)
        metrics, result = _metrics_and_result(table)
        measurements.append((table.name, metrics))
        return result

    tables = on_tables(arguments, measure)
    if history is not None:
        history.append(measurements)

    def show(terminal: Terminal) -> None:
        if len(tables.results) == 1:
            for name, result in tables.successes:
                _show_table(terminal, name, result)
        else:
            _show_fleet(terminal, tables)

    has_work = any(result["due"] for _, result in tables.successes)
    return Report(tables.document("health"), show, tables.errors, has_work)


def _history(arguments: Namespace) -> HealthRecord | None:
    """The history to which metrics and scores are appended; None without ``--record``.

    Raises:
        UsageError: neither the command line nor the registry has the location of the history.
    """
    if not arguments.record:
        return None
    from lakehouse_lib.fleet.health.record import HealthRecord

    registry = registry_of(arguments)
    records = arguments.records or (None if registry is None else registry.records)
    if records is None:
        raise UsageError(
            "--record has no folder for the history", hint="Give --records FOLDER, or a registry with records"
        )
    return HealthRecord(records, options_for(records, arguments.storage_options))


def _metrics_and_result(table: MaintainedTable) -> tuple[Health, dict[str, Any]]:
    """The metrics of a table, and the result for it: metrics, score and due verbs as plain values."""
    from lakehouse_lib.errors import UnsupportedFeatureError
    from lakehouse_lib.fleet.health import score
    from lakehouse_lib.fleet.health.fleet_health import health_of
    from lakehouse_lib.fleet.planner.candidates import steps_of
    from lakehouse_lib.fleet.planner.correction import Corrections
    from lakehouse_lib.snapshot import load_snapshot

    snapshot, policy = load_snapshot(table.store), table.policy
    metrics = health_of(snapshot, policy)
    values = {**metrics.to_dict(), "score": score(metrics).to_dict()}
    try:
        steps = steps_of(table.name, snapshot, policy, Corrections([]))
    except UnsupportedFeatureError as error:  # a table that can be read, but not maintained
        return metrics, {**values, "due": [], "not_maintained": error.statement}
    due = [{"verb": step.verb, "reason": step.reason} for step in steps]
    return metrics, {**values, "due": due, "not_maintained": None}


def _show_table(terminal: Terminal, name: str, health: dict[str, Any]) -> None:
    from lakehouse_lib.cli.terminal import size_text, time_text

    score, writes = health["score"], health["writes"]
    sizes = [health[key] for key in ("p05_file_size", "median_file_size", "p95_file_size")]
    checkpoint_version = health["checkpoint_version"]
    values: dict[str, Any] = {
        "score": f"{score['points']} of 100",
        "version": f"{health['version']} of {time_text(health['timestamp'])}",
        "files": f"{health['files']:,} with {size_text(health['bytes'])}",
        "rows": health["rows"] if health["rows"] is not None else "unknown: files have no statistics",
        "file sizes": "-"
        if sizes[0] is None
        else f"median {size_text(sizes[1])}, 90% from {size_text(sizes[0])} to {size_text(sizes[2])}",
        "small files": f"{health['small_files']:,} below half of {size_text(health['target_file_size'])}; "
        f"compaction would rewrite {health['compactable_files']:,}",
        "partitions": f"{health['partitions']:,}, the largest with {health['largest_partition_files']:,} files",
        "removed files": f"{health['tombstones']:,} with {size_text(health['tombstone_bytes'])}; past the retention: "
        f"{health['reclaimable_files']:,} with {size_text(health['reclaimable_bytes'])}",
        "log": f"{health['versions']:,} commits, {health['commits_since_checkpoint']:,} since "
        + ("the start" if checkpoint_version is None else f"the checkpoint of version {checkpoint_version}"),
        "writes": f"{writes['commits']:,} commits in {writes['days']} days"
        + "".join(f", {writer['commits']:,} {_writer_text(writer)}" for writer in writes["writers"][:_WRITERS]),
        "protocol": f"reader {health['min_reader_version']}, writer {health['min_writer_version']}",
        "features": health["features"],
    }
    if health["deleted_rows"]:
        values["deleted rows"] = f"{health['deleted_rows']:,}, which deletion vectors hide"
    if health["skipping"]:
        values["skipped files"] = [
            f"{share:.0%} in a query for one value of {column}" for column, share in health["skipping"].items()
        ]
        values["not Z-ordered"] = (
            f"{health['unclustered_files']:,} files; {health['unmerged_runs']:,} runs of z_order to merge"
        )
    terminal.line(name)
    terminal.pairs(values)
    terminal.line()
    if score["reasons"]:
        terminal.line("Reasons of the score:")
        terminal.lines([f"-{reason['points']} {reason['name']}: {reason['sentence']}" for reason in score["reasons"]])
        terminal.line()
    if health["not_maintained"] is not None:
        terminal.line(f"The table cannot be maintained: {health['not_maintained']}")
    elif health["due"]:
        terminal.line("Due:")
        terminal.lines([f"{step['verb']}: {step['reason']}" for step in health["due"]])
    else:
        terminal.line("Nothing is due.")


def _writer_text(writer: dict[str, Any]) -> str:
    """The operation of a writer, and the writer's name: the Airflow DAG, else the user, else the engine."""
    name = writer["dag"] or writer["user"] or writer["engine"]
    operation = writer["operation"] or "of unknown operation"
    return operation if name is None else f"{operation} by {name}"


def _show_fleet(terminal: Terminal, tables: TableResults) -> None:
    """Print a row for each table. A table that cannot be read has the code of its error instead of numbers."""
    from lakehouse_lib.cli.terminal import Size

    def due_verbs(health: dict[str, Any]) -> Any:
        return [step["verb"] for step in health["due"]] if health["not_maintained"] is None else "not maintained"

    titles = ("table", "score", "version", "files", "size", "small files", "past retention", "commits to replay", "due")
    rows: list[tuple[Any, ...]] = []
    for table_result in tables.results:
        health = table_result.result
        if health is None:
            rows.append(
                (table_result.table.name, *[None] * (len(titles) - 2), table_result.error and table_result.error.code)
            )
            continue
        row = (
            table_result.table.name,
            health["score"]["points"],
            health["version"],
            health["files"],
            Size(health["bytes"]),
            health["small_files"],
            Size(health["reclaimable_bytes"]),
            health["commits_since_checkpoint"],
            due_verbs(health),
        )
        rows.append(row)
    terminal.rows(titles, rows)


COMMANDS = (Command("health", "Show the health of tables, and what is due. Reads their logs only.", configure, run),)
