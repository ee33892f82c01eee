"""A job's command line: the parser for its parameters, and the arguments that an operator passes.

Both are in one module, so that the parser understands every argument that an operator writes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from lakehouse_lib.catalogue import Kind, Parameter
from lakehouse_lib.errors import InvalidArgumentError
from spark_jobs.process.private_files import is_private, read_private

_STORAGE_OPTIONS, _COMMIT_METADATA = "storage_options_file", "commit_metadata_file"


class Arguments(argparse.ArgumentParser):
    """The parser of a job. It raises the job's errors.

    A parameter ``target_file_size`` is the option ``--target-file-size``. Conditions, assignments, clauses and mappings
    of texts have two options, for the text and for a file with the text. Every job has the options
    ``--storage-options-file`` and ``--commit-metadata-file``.
    """

    def __init__(self, job: str, description: str, parameters: Sequence[Parameter]) -> None:
        super().__init__(prog=f"spark_jobs.{job}", description=description, allow_abbrev=False)
        self.job = job
        self.add_argument(
            option(_STORAGE_OPTIONS),
            dest="storage_options",
            type=_storage_options,
            default={},
            metavar="FILE",
            help="storage options as JSON: {location: {option: value}}; in a file, because every user of the machine "
            "sees command lines",
        )
        self.add_argument(
            option(_COMMIT_METADATA),
            dest="commit_metadata",
            type=_commit_metadata,
            default={},
            metavar="FILE",
            help="fields for the commitInfo of every commit of the job as JSON, such as who has started it",
        )
        for parameter in parameters:
            _add(self, parameter)

    def error(self, message: str) -> NoReturn:
        raise InvalidArgumentError(message, hint=f"See python -m spark_jobs.{self.job} --help")


def option(name: str) -> str:
    """The option of a parameter, or of the file that contains the parameter's text."""
    return "--" + name.replace("_", "-")


def command_line(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> list[str]:
    """The arguments that pass these values to a job. None and default values are left out.

    An option and its value are one argument, so that a value cannot be read as an option.

    Args:
        values: parameter name -> value.

    Raises:
        InvalidArgumentError: the job does not have a parameter of this name.
    """
    by_name = {parameter.name: parameter for parameter in parameters}
    arguments = []
    for name, value in values.items():
        if name not in by_name:
            raise InvalidArgumentError(f"the parameter is {name!r}; expected one of {', '.join(by_name)}")
        parameter = by_name[name]
        if value is None or value == parameter.default:
            continue
        if parameter.kind == "flag":
            arguments.append(_flag(parameter))
        elif parameter.kind == "inputs":
            arguments += [f"{option(name)}={each}={uri}" for each, uri in value]
        else:
            arguments.append(f"{option(name)}={_KINDS[parameter.kind].text(value)}")
    return arguments


def file_option(parameters: Sequence[Parameter], name: str) -> str:
    """The option for the path of the file ``name``.

    Args:
        name: a parameter of the kind ``file``; the name of a condition, of assignments, of clauses or of a mapping of
            texts with the suffix ``_file``; ``storage_options_file`` or ``commit_metadata_file``.

    Raises:
        InvalidArgumentError: the job does not read this file.
    """
    files = [parameter.name for parameter in parameters if parameter.kind == "file"]
    files += [f"{parameter.name}_file" for parameter in parameters if parameter.kind in _LONG_KINDS]
    files += [_STORAGE_OPTIONS, _COMMIT_METADATA]
    if name not in files:
        raise InvalidArgumentError(f"the file is {name!r}; expected one of {', '.join(files)}")
    return option(name)


def read_json_file(path: str, what: str) -> Any:
    """The value of a JSON file on the command line; InvalidArgumentError if it cannot be read or is not JSON."""
    return parse_json(read_text_file(path, what), path, what)


def parse_json(text: str, path: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{what} {path} is not valid JSON: {error}", hint="Correct the file") from error


def read_text_file(path: str, what: str) -> str:
    """The text of a file or a private file on the command line; InvalidArgumentError if it cannot be read."""
    try:
        return read_private(path) if is_private(path) else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidArgumentError(f"{what} {path} cannot be read: {reason}", hint="Name a readable file") from error


def _add(parser: Arguments, parameter: Parameter) -> None:
    name = parameter.name
    if parameter.kind == "flag":
        action = "store_false" if parameter.default else "store_true"
        parser.add_argument(_flag(parameter), dest=name, action=action, help=parameter.help)
        return
    kind = _KINDS[parameter.kind]
    keywords: dict[str, Any] = {"type": kind.parse, "default": parameter.default, "help": parameter.help}
    if parameter.choices:
        keywords["choices"] = parameter.choices
    else:
        keywords["metavar"] = kind.metavar
    if parameter.kind in _LONG_KINDS:
        group = parser.add_mutually_exclusive_group(required=parameter.required)
        group.add_argument(option(name), **keywords)
        about = f"a file with the {name}, if it is long"
        read = _text_of(name)
        group.add_argument(
            f"{option(name)}-file", dest=name, type=lambda path: kind.parse(read(path)), metavar="FILE", help=about
        )
        return
    if parameter.kind == "inputs":
        keywords["action"] = "append"
    parser.add_argument(option(name), required=parameter.required, **keywords)


def _flag(parameter: Parameter) -> str:
    """The option that reverses a flag's default."""
    return option(f"no_{parameter.name}" if parameter.default else parameter.name)


def _text_of(name: str) -> Callable[[str], str]:
    """An argparse type: the text of a parameter's file."""

    def read(path: str) -> str:
        try:
            return read_text_file(path, f"the {name} file")
        except InvalidArgumentError as error:
            raise argparse.ArgumentTypeError(error.message) from None

    return read


def _storage_options(path: str) -> dict[str, dict[str, str]]:
    """An argparse type: storage options by location, from a JSON file. Its error has no values, which may be secret."""
    try:
        options_by_location = read_json_file(path, "the file of storage options")
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    if not isinstance(options_by_location, dict) or not all(
        options is None or isinstance(options, dict) for options in options_by_location.values()
    ):
        raise argparse.ArgumentTypeError(
            f'{path} is not a valid JSON object of objects; expected {{"LOCATION": {{"OPTION": "text"}}}}'
        )
    return {location: options for location, options in options_by_location.items() if options}


def _commit_metadata(path: str) -> dict[str, Any]:
    """An argparse type: fields of commitInfo, from a JSON file."""
    try:
        fields = read_json_file(path, "the file of commit metadata")
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    if not isinstance(fields, dict):
        raise argparse.ArgumentTypeError(f'{path} is not a valid JSON object; expected {{"FIELD": VALUE, ...}}')
    return fields


def _texts(text: str) -> dict[str, str]:
    """An argparse type: a JSON object of texts. Its error has no values, which may be personal."""
    texts = _json(text)
    if not isinstance(texts, dict) or not all(isinstance(value, str) for value in texts.values()):
        raise argparse.ArgumentTypeError('not a valid JSON object of texts; expected {"NAME": "TEXT", ...}')
    return texts


def _clauses(text: str) -> list[Any]:
    """An argparse type: a JSON list of objects. Its error has no values, which may be personal."""
    clauses = _json(text)
    if not isinstance(clauses, list) or not all(isinstance(clause, dict) for clause in clauses):
        raise argparse.ArgumentTypeError('not a valid JSON list of objects; expected [{"METHOD": {ARGUMENTS}}, ...]')
    return clauses


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _names(text: str) -> tuple[str, ...]:
    """An argparse type: comma-separated column names."""
    columns = tuple(name.strip() for name in text.split(","))
    if not all(columns):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid list of column names")
    return columns


def _positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _number(text: str) -> float:
    """An argparse type: a number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return value


def _input(text: str) -> tuple[str, str]:
    """An argparse type: a name and a location."""
    name, separator, uri = text.partition("=")
    if not separator or not uri or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid NAME=URI; expected a name that SQL can use")
    return name, uri


@dataclass(frozen=True)
class _ValueKind:
    """How a kind of value is shown in ``--help``, parsed, and written as text."""

    metavar: str
    parse: Callable[[str], Any] = str
    text: Callable[[Any], str] = str


#: Kinds whose values may be long or personal, and may be in a file.
_LONG_KINDS: tuple[Kind, ...] = ("assignments", "clauses", "condition", "texts")
_KINDS: Mapping[Kind, _ValueKind] = {
    "assignments": _ValueKind("JSON", _texts, json.dumps),
    "bytes": _ValueKind("BYTES", _positive),
    "clauses": _ValueKind("JSON", _clauses, json.dumps),
    "condition": _ValueKind("SQL"),
    "count": _ValueKind("N", _positive),
    "file": _ValueKind("FILE"),
    "folder": _ValueKind("DIR"),
    "hours": _ValueKind("HOURS", _number, "{:g}".format),
    "inputs": _ValueKind("NAME=URI", _input),
    "integer": _ValueKind("N", int),
    "location": _ValueKind("URI"),
    "names": _ValueKind("A,B", _names, ",".join),
    "seconds": _ValueKind("SECONDS", _number, "{:g}".format),
    "text": _ValueKind("TEXT"),
    "texts": _ValueKind("JSON", _texts, json.dumps),
    "version": _ValueKind("VERSION"),
}
