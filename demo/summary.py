"""Print the results of the demo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from demo.checks import Check
from demo.lakehouse import TARGET_FILE_SIZE
from demo.measure import TableState
from demo.pipeline import Release


@dataclass
class Record:
    """The results of the demo, which the summary shows.

    Attributes:
        loaded, maintained, final: the tables after the load, after maintenance and at the end.
        maintenance: by table and verb, the steps of the maintenance run, with predicted and measured effects.
        quarantined: (table, reason, rows), most rows first.
        refused: by file, the message with which it was rejected.
        person_rows: by table, the erased customer's rows in every file on disk, before and after.
        unattributed: by quarantine, the number of records without a readable key, and how many of these mention the
            customer.
        question: the headline of the approval.
        own_answer_refused: whether Airflow refused the answer of the user who requested the erasure.
        erasure: the record in the ledger.
        releases: the runs of the downstream DAG, with the versions that triggered them.
        steps: title and seconds of each act, a numbered part of the demo.
    """

    loaded: Mapping[str, TableState] = field(default_factory=dict)
    maintained: Mapping[str, TableState] = field(default_factory=dict)
    final: Mapping[str, TableState] = field(default_factory=dict)
    maintenance: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quarantined: Sequence[tuple[str, str, int]] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    customer: int = 0
    person_rows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unattributed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    question: str = ""
    own_answer_refused: bool = False
    erasure: Mapping[str, Any] = field(default_factory=dict)
    releases: Sequence[Release] = ()
    steps: Sequence[tuple[str, float]] = ()
    checks: Sequence[Check] = ()


def show(record: Record, console: Console) -> None:
    console.print()
    console.rule("[bold]What happened")
    console.print(_tables(record), "\n", _maintenance(record), "\n", _skipping(record), sep="")
    console.print(
        "\nTarget file sizes are set small for this demo ("
        + ", ".join(f"{table} {_size(size)}" for table, size in TARGET_FILE_SIZE.items())
        + "; the default is 100 MiB), so that few rows\n"
        "fill many files. Smaller files are merged, larger files are split.\n"
        "Vacuum's retention is 0 hours here (the default is 7 days), so that old files are deleted at once. Do not do\n"
        "that where a query may still be reading an older version.\n"
    )
    console.print(_quarantine(record))
    for message in record.refused.values():
        console.print(f"\n[yellow]File rejected as a whole[/]: {escape(message)}\n")
    console.print(_person(record))
    for folder, (records, mentions) in record.unattributed.items():
        console.print(
            f"{folder} also has {records} records that could not be split into columns, so they have no readable key.\n"
            f"{mentions} of them have a key of the customer in a field. The erasure counts and keeps these records."
        )
    console.print(
        "Landing files are not erased, and the customer's rows in them are not counted. Until the log is cleaned up,\n"
        "its statistics may contain the customer's keys. The commits of the deletes contain only the id of the request."
    )
    if record.erasure:
        console.print(_erasure(record))
    console.print(_releases(record), "\n", _steps(record), "\n", _checks(record), sep="")


def _tables(record: Record) -> Table:
    table = _grid("The tables", "table", "version", "rows", "files", "mean file size")
    for name, before in record.loaded.items():
        after, final = record.maintained[name], record.final.get(name, record.maintained[name])
        table.add_row(
            name,
            f"{before.version} → {after.version} → {final.version}",
            f"{before.rows:,} → {final.rows:,}" if before.rows != final.rows else f"{final.rows:,}",
            f"{before.files} → {after.files}",
            f"{_size(before.mean_size)} → {_size(after.mean_size)}",
        )
    table.caption = "after the load → after maintenance (→ at the end, the customer erased)"
    return table


def _maintenance(record: Record) -> Table:
    table = _grid(
        "What maintenance planned and gained",
        *("table", "step", "", "files", "MiB written", "MiB freed", "MiB fewer for a query"),
    )
    for name, steps in record.maintenance.items():
        for verb, step in steps.items():
            for kind in ("predicted", "measured"):
                effect = step[kind] or {}
                table.add_row(
                    *((name, verb) if kind == "predicted" else ("", "")),
                    kind if effect else f"{kind}: {step['status']}",
                    f"{effect.get('files_removed', 0)} → {effect.get('files_added', 0)}",
                    *(f"{effect.get(key, 0) / 2**20:.1f}" for key in ("bytes_written", "bytes_freed", "query_bytes")),
                )
    table.caption = "a file that a query no longer opens counts as 4 MiB"
    return table


def _skipping(record: Record) -> Table:
    table = _grid("Files a selective query reads", "table", "where", "before Z-order", "after Z-order")
    for name, before in record.loaded.items():
        after = record.maintained[name]
        for predicate, read in before.files_read.items():
            table.add_row(
                name,
                predicate,
                f"{read} of {before.files}",
                f"{after.files_read[predicate]} of {after.files}",
            )
    return table


def _erasure(record: Record) -> Table:
    body = record.erasure
    table = _grid("The record of the erasure, in the ledger", "", "")
    table.show_header = False
    for name, value in (
        ("request", body["request"]),
        ("requested by", body["requester"]),
        ("question", record.question),
        ("approved by", f"{body['approver']['name']}, {body['approved_at']}"),
        ("rows deleted", ", ".join(f"{each['table']} {each['rows_deleted']}" for each in body["tables"])),
        ("files removed", ", ".join(f"{each['table']} {len(each['files_removed'])}" for each in body["tables"])),
        ("digest of the plan", body["digest"]),
    ):
        table.add_row(name, escape(str(value)))
    return table


def _quarantine(record: Record) -> Table:
    table = _grid("Rows in quarantine, by reason", "table", "reason", "rows")
    for name, reason, rows in record.quarantined:
        table.add_row(name, escape(reason), str(rows))
    return table


def _person(record: Record) -> Table:
    title = f"Customer {record.customer}: rows in every file on disk, live or not"
    table = _grid(title, "folder", "before the erasure", "after")
    for name, (before, after) in record.person_rows.items():
        table.add_row(name, str(before), str(after))
    return table


def _releases(record: Record) -> Table:
    table = _grid("Runs of the downstream DAG", "lakehouse_report", "when", "for the new versions", "duration")
    for release in record.releases:
        when = release.queued.astimezone().strftime("%H:%M:%S") if release.queued else ""
        first, last = release.first_version, release.last_version
        versions = f"{release.table} {first}" + (f" to {last}" if last > first else "")
        table.add_row(release.run_type.replace("_", " "), when, versions, f"{release.seconds:.1f} s")
    table.caption = "assets triggered these runs; a second load without new files triggered none"
    return table


def _steps(record: Record) -> Table:
    table = _grid("Durations", "step", "seconds")
    for title, seconds in record.steps:
        table.add_row(title, f"{seconds:.1f}")
    table.add_row("[bold]all", f"[bold]{sum(seconds for _, seconds in record.steps):.1f}")
    return table


def _checks(record: Record) -> Table:
    table = _grid("Checks", "", "statement")
    for check in record.checks:
        table.add_row("[green]✓[/]" if check.holds else "[red]✗[/]", escape(check.name))
    return table


def _grid(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), title_justify="left", title_style="bold", caption_justify="left", box=None)
    table.pad_edge = False
    for position, column in enumerate(columns):
        numeric = column in {"rows", "seconds", "before the erasure", "after"} and position > 0
        table.add_column(column, justify="right" if numeric else "left", header_style="dim")
    return table


def _size(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size:.0f} {unit}" if unit != "MiB" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError
