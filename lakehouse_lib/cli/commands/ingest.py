"""``lakehouse ingest``: load source files into a table, or infer the schema of files."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import INGEST
from lakehouse_lib.cli.command import Command, Report, UsageError, add_exit_code, add_run
from lakehouse_lib.cli.engines import add_engine, engine_of
from lakehouse_lib.cli.progress import progress
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.command_options import (
    add_parameter,
    add_storage_options,
    option,
    parse_json,
    read_text_file,
)

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal
    from lakehouse_lib.ingestion.load import Load
    from lakehouse_lib.ingestion.load_result import LoadResult
    from lakehouse_lib.ingestion.source import Source

_LOCATIONS = ("landing", "table")
#: Parameters that a load requires. ``--infer`` needs none of them.
_REQUIRED = [each.name for each in INGEST.parameters if each.required and each.name not in _LOCATIONS]


def configure(parser: ArgumentParser) -> None:
    for name, about in (("landing", "the folder of source files"), ("table", "the location of the table")):
        parser.add_argument(name, nargs="?", metavar=name.upper(), help=about)
    parser.add_argument(
        "--infer",
        metavar="FILE_OR_FOLDER",
        help="print a schema and a suite that fit these files, to be edited; nothing is loaded",
    )
    for parameter in INGEST.parameters:
        if parameter.name not in _LOCATIONS:
            add_parameter(parser, replace(parameter, required=False))
    add_storage_options(parser)
    add_engine(parser)
    add_run(parser, "load the files")
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Load the new files, or print the files that would be loaded, or the inferred schema."""
    if arguments.infer is not None:
        return _inferred(arguments)
    missing = [name.upper() for name in _LOCATIONS if getattr(arguments, name) is None]
    missing += [option(name) for name in _REQUIRED if getattr(arguments, name) is None]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            hint="Give the missing options, or --infer FILE_OR_FOLDER for a first schema; see lakehouse ingest --help",
        )
    from lakehouse_lib.ingestion.load import Load

    load = Load(_source(arguments))
    return _run(arguments, load) if arguments.run else _dry_run(arguments, load)


def _source(arguments: Namespace) -> Source:
    from lakehouse_lib.ingestion.source import Source

    suite = None
    if arguments.suite is not None:
        suite = parse_json(read_text_file(arguments.suite, "the suite file"), arguments.suite, "the suite file")
    locations = [arguments.table, arguments.landing, arguments.quarantine]
    options = {location: options_for(location, arguments.storage_options) for location in locations}
    return Source.of(
        vars(arguments),
        schema=read_text_file(arguments.schema, "the schema file"),
        suite=suite,
        storage_options={location: each for location, each in options.items() if each},
    )


def _run(arguments: Namespace, load: Load) -> Report:
    if arguments.give_up:
        load.give_up()
    result = load.nothing_to_do()
    if result is None:
        with engine_of(arguments) as engine, progress("loads") as bar:
            bar.expect(1)
            spark = engine().spark if arguments.spark is not None and load.needs_spark() else None  # type: ignore[attr-defined]
            result = load.run(spark, on_progress=bar.observer(arguments.table))
    error = result.error(arguments.refused)
    done: LoadResult = result
    values = done.to_dict()

    def show(terminal: Terminal) -> None:
        rows = [
            (batch["batch"], len(batch["files"]), batch["rows_loaded"], batch["rows_quarantined"], batch["version"])
            for batch in values["batches"]
        ]
        if rows:
            terminal.rows(("batch", "files", "rows loaded", "rows quarantined", "version"), rows)
        else:
            terminal.line("No file was loaded.")
        _show_files(terminal, values["files_waiting"], done.refused, done.earlier_refusals, done.changed)

    errors = () if error is None else ((arguments.table, error),)
    return Report(_document(load, values, dry_run=False), show, errors)


def _dry_run(arguments: Namespace, load: Load) -> Report:
    from lakehouse_lib.ingestion.batches.planning import cut_batches

    source, files, unsettled = load.source, load.files, load.history.unsettled
    sizes = [
        file.size for batch in cut_batches(files.new, source.files_per_batch, source.bytes_per_batch) for file in batch
    ]
    names = files.new["name"].to_pylist()
    values = {
        "files_to_load": names,
        "bytes": sum(sizes),
        "batches": sum(1 for _ in cut_batches(files.new, source.files_per_batch, source.bytes_per_batch)),
        "unfinished_batch": None if unsettled is None else unsettled.number,
        "files_waiting": list(files.waiting),
        "files_refused_earlier": dict(files.refused),
        "files_changed": dict(files.changed),
    }

    def show(terminal: Terminal) -> None:
        from lakehouse_lib.cli.terminal import size_text

        if unsettled is not None:
            terminal.line(f"{arguments.table}: would finish batch {unsettled.number}, which a killed run has begun")
        terminal.line(
            f"{arguments.table}: would load {len(names):,} files with {size_text(sum(sizes))} in "
            f"{values['batches']:,} batches"
        )
        terminal.lines(names)
        _show_files(terminal, files.waiting, {}, files.refused, files.changed)
        terminal.line("Nothing was loaded; --run loads the files.")

    return Report(_document(load, values, dry_run=True), show, has_work=bool(names) or unsettled is not None)


def _show_files(terminal: Terminal, waiting: Any, refused: Any, earlier_refusals: Any, changed: Any) -> None:
    lines = [f"waiting: {name} may still grow" for name in waiting]
    lines += [f"refused: {reason}" for reason in refused.values()]
    lines += [f"refused earlier: {reason}" for reason in earlier_refusals.values()]
    lines += [f"changed: {name} was loaded in batch {batch}" for name, batch in changed.items()]
    terminal.lines(lines)


def _document(load: Load, values: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
    table = {"table": load.source.table, "location": load.store.root, "result": values}
    return {"command": "ingest", "dry_run": dry_run, "tables": [table]}


def _inferred(arguments: Namespace) -> Report:
    from lakehouse_lib.ingestion.inference.infer import infer

    location: str = arguments.infer
    inferred = infer(location, vars(arguments), options_for(location, arguments.storage_options))
    document = {
        "command": "ingest",
        "files": list(inferred.files),
        "rows": inferred.rows,
        "format": inferred.format.to_json(),
        "notes": list(inferred.notes),
        "schema": inferred.schema.json(),
        "suite": inferred.suite,
    }

    def show(terminal: Terminal) -> None:
        terminal.line(f"Read {inferred.rows:,} rows of {len(inferred.files):,} files as {inferred.format.kind}.")
        terminal.lines([f"note: {note}" for note in inferred.notes])
        for title, value in (("schema", document["schema"]), ("suite", inferred.suite)):
            terminal.line()
            terminal.line(f"{title}:")
            terminal.line(json.dumps(value, indent=2, ensure_ascii=False))
        terminal.line()
        terminal.line("Nothing was loaded. Edit the schema and the suite, and give them as --schema and --suite.")

    return Report(document, show)


COMMANDS = (
    Command(
        "ingest",
        "Load source files from a landing folder into a table, or infer the schema of files.",
        configure,
        run,
    ),
)
