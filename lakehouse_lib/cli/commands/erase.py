"""``lakehouse erase --dry-run``: where the rows of a person are."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from getpass import getpass
from typing import TYPE_CHECKING, Any

from lakehouse_lib.cli.command import Command, Report
from lakehouse_lib.cli.storage_options import options_for
from lakehouse_lib.cli.tables import registry_of
from lakehouse_lib.command_options import add_storage_options, read_text_file
from lakehouse_lib.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--registry", metavar="FILE", required=True, help="the registry with the subject")
    parser.add_argument("--subject", metavar="NAME", required=True, help="the kind of person, such as customer")
    parser.add_argument(
        "--id-file",
        metavar="FILE",
        help="a file with the person's identifier, because other users see command lines; default: standard input",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        required=True,
        help="required, because an erasure needs an approval: the DAG lakehouse_erasure_SUBJECT asks for it",
    )
    add_storage_options(parser)


def run(arguments: Namespace) -> Report:
    """Count the person's rows in each table of the subject, in the latest version and in every file on disk."""
    registry = registry_of(arguments)
    assert registry is not None  # the option is required
    subject = registry.subject(arguments.subject)
    uris = {name: registry.table(name).uri for name in subject.places()}
    options = {name: options_for(uri, arguments.storage_options) for name, uri in uris.items()}
    entries = _places(subject.model_dump(include={"id_type", "rows"}, exclude_none=True), _id(arguments), uris, options)
    document = {"command": "erase", "dry_run": True, "subject": arguments.subject, "tables": entries}
    return Report(document, lambda terminal: _show(terminal, entries))


def _places(
    subject: dict[str, Any], identifier: str, uris: dict[str, str], options: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    from lakehouse_lib.privacy.places import find_places
    from lakehouse_lib.privacy.purge import prove
    from lakehouse_lib.privacy.subject import subject_from_config

    kind = subject_from_config(subject)
    try:
        value = kind.value(identifier)
    except InvalidArgumentError as error:  # the error's text holds the identifier
        raise InvalidArgumentError(
            f"the identifier is not valid; expected one of type {kind.id_type}",
            hint="Write only the identifier into the file, without quotes",
            code=error.code,
        ) from None
    places = find_places(kind, value, uris, erase_mentions=False, storage_options=options)
    return [
        place.with_disk(prove(place.uri, place.keys.sql(), storage_options=options[name])).entry()
        for name, place in places.items()
    ]


def _id(arguments: Namespace) -> str:
    if arguments.id_file is not None:
        return read_text_file(arguments.id_file, "the file of the identifier").strip()
    if sys.stdin.isatty():
        return getpass("identifier: ").strip()
    return sys.stdin.read().strip()


def _show(terminal: Terminal, entries: list[dict[str, Any]]) -> None:
    titles = ("table", "version", "rows", "files", "rows on disk", "files with rows", "unreadable files")
    rows = [
        (
            entry["table"],
            entry["version"],
            entry["rows"],
            entry["files"],
            entry["on_disk"]["rows"],
            entry["on_disk"]["files_with_rows"],
            entry["on_disk"]["unreadable"],
        )
        for entry in entries
    ]
    terminal.rows(titles, rows)
    terminal.line("Nothing was erased. An erasure needs an approval: trigger the DAG lakehouse_erasure_SUBJECT.")


COMMANDS = (Command("erase", "Count the rows of a person that an erasure would delete.", configure, run),)
