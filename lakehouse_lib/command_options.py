"""The options of command lines, made from the parameters of the catalogue.

Jobs and the command ``lakehouse`` use them. The parameter ``target_file_size`` has the option ``--target-file-size``. A
parameter for a condition, assignments, clauses or an object of texts has two options. One takes the text, the other one
(with the ending ``-file``) the path of a file with the text.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lakehouse_lib.catalogue.operation import Kind, Operation, Parameter
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.property_values import size

#: Reads the text of a file that the command line names. The arguments are the path, and a noun for the file in errors.
ReadText = Callable[[str, str], str]

STORAGE_OPTIONS = "storage_options_file"
#: Kinds whose values may be long or personal. A user may give the path of a file with the value.
LONG_KINDS: tuple[Kind, ...] = ("assignments", "clauses", "condition", "texts")
#: Kinds whose option is repeated for each value of the list.
LIST_KINDS: tuple[Kind, ...] = ("inputs", "locations", "text_list")


def option(name: str) -> str:
    """The option with this name, such as ``--dry-run`` for ``dry_run``."""
    return "--" + name.replace("_", "-")


def flag_option(parameter: Parameter) -> str:
    """The option that reverses a flag's default."""
    return option(parameter.opposite or f"no_{parameter.name}" if parameter.default else parameter.name)


def argument_text(parameter: Parameter, value: Any) -> str:
    """The text on a command line that the parser reads as this value.

    Raises:
        InvalidArgumentError: the parser would read other names, because a name is empty, or has a comma or spaces
            around it.
    """
    if parameter.kind == "names" and not all(name and name == name.strip() and "," not in name for name in value):
        raise InvalidArgumentError(
            f"{parameter.name} is {excerpt(list(value))}; expected names without commas and without spaces around them",
            hint="Call the verb of the table in Python for columns with such names",
        )
    return _KINDS[parameter.kind].text(value)


def value_of_text(parameter: Parameter, text: str) -> Any:
    """The value of a parameter, parsed from the text of a rendered template as from a command line.

    The text of a flag is ``True`` or ``False``. The texts ``None`` and "" mean the default value if the parameter is a
    flag, a number or a list of names. SQL, names of tables and other texts are returned unchanged.

    Raises:
        InvalidArgumentError: the text is not a value of this kind. The error does not show a value of ``LONG_KINDS``.
    """
    kind = _KINDS.get(parameter.kind)
    if kind is not None and kind.parse is str:
        return text
    if text.strip() in ("", "None") and parameter.kind not in LONG_KINDS:
        return parameter.default
    if kind is None:
        if text.strip().lower() not in ("true", "false"):
            raise InvalidArgumentError(
                f"{parameter.name} is {text!r}; expected True or False", hint="Correct the template"
            )
        return text.strip().lower() == "true"
    if parameter.kind == "inputs":
        return text
    try:
        return kind.parse(text.strip())
    except argparse.ArgumentTypeError as error:
        raise InvalidArgumentError(f"{parameter.name}: {error}", hint="Correct the template") from None
    except ValueError:
        raise InvalidArgumentError(f"{parameter.name} is {text!r}; expected a number", hint="Correct it") from None


def read_text_file(path: str, what: str) -> str:
    """The text of a UTF-8 file that the command line names.

    Args:
        what: a noun for the file, for the error.

    Raises:
        InvalidArgumentError: the file cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise unreadable_file(path, what, error) from error


def unreadable_file(path: str, what: str, error: OSError | UnicodeError) -> InvalidArgumentError:
    """The error for a file that the command line names and that cannot be read."""
    reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
    return InvalidArgumentError(f"{what} {path} cannot be read: {reason}", hint="Name a readable file")


def parse_json(text: str, path: str, what: str) -> Any:
    """The value of a JSON file's text; InvalidArgumentError if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{what} {path} is not valid JSON: {error}", hint="Correct the file") from error


def add_parameter(parser: argparse.ArgumentParser, parameter: Parameter, read_text: ReadText = read_text_file) -> None:
    """Add the option of a parameter to a parser; a parameter of ``LONG_KINDS`` has two options."""
    name = parameter.name
    if parameter.kind == "flag":
        action = "store_false" if parameter.default else "store_true"
        about = f"do not {parameter.help}" if parameter.default else parameter.help
        if parameter.opposite:
            about = f"the opposite of {option(name)}"
        group = parser.add_mutually_exclusive_group()
        group.add_argument(flag_option(parameter), dest=name, action=action, help=about)
        if parameter.opposite:
            group.add_argument(option(name), dest=name, action="store_true", default=True, help=parameter.help)
        return
    kind = _KINDS[parameter.kind]
    keywords: dict[str, Any] = {"type": kind.parse, "default": parameter.default, "help": parameter.help}
    if parameter.choices:
        keywords["choices"] = parameter.choices
    else:
        keywords["metavar"] = kind.metavar
    if parameter.kind in LONG_KINDS:
        group = parser.add_mutually_exclusive_group(required=parameter.required)
        group.add_argument(option(name), **keywords)
        about = f"a file with the {name}, if it is long"
        read = _text_of(name, read_text)
        group.add_argument(
            f"{option(name)}-file", dest=name, type=lambda path: kind.parse(read(path)), metavar="FILE", help=about
        )
        return
    if parameter.kind in LIST_KINDS:
        keywords["action"] = "append"
    parser.add_argument(option(name), required=parameter.required, **keywords)


def add_optional(parser: argparse.ArgumentParser, operation: Operation, name: str) -> None:
    """Add a parameter of an operation to a parser, as an option that users may leave out."""
    parameter = next(parameter for parameter in operation.parameters if parameter.name == name)
    add_parameter(parser, replace(parameter, required=False))


def add_storage_options(parser: argparse.ArgumentParser, read_text: ReadText = read_text_file) -> None:
    """Add the option ``--storage-options-file``. The parsed ``storage_options`` has the options of each location."""
    parser.add_argument(
        option(STORAGE_OPTIONS),
        dest="storage_options",
        type=_storage_options(read_text),
        default={},
        metavar="FILE",
        help="storage options as JSON: {location: {option: value}}; in a file, because every user of the machine "
        "sees command lines",
    )


def _text_of(name: str, read_text: ReadText) -> Callable[[str], str]:
    """An argparse type: the text of the file with this parameter's value."""

    def read(path: str) -> str:
        try:
            return read_text(path, f"the {name} file")
        except InvalidArgumentError as error:
            raise argparse.ArgumentTypeError(error.message) from None

    return read


def _storage_options(read_text: ReadText) -> Callable[[str], dict[str, dict[str, str]]]:
    """An argparse type: storage options by location, from a JSON file. Its error has no values, which may be secret."""
    what = "the file of storage options"

    def read(path: str) -> dict[str, dict[str, str]]:
        try:
            options_by_location = parse_json(read_text(path, what), path, what)
        except InvalidArgumentError as error:
            raise argparse.ArgumentTypeError(error.message) from None
        if not isinstance(options_by_location, dict) or not all(
            options is None or isinstance(options, dict) for options in options_by_location.values()
        ):
            raise argparse.ArgumentTypeError(
                f'{path} is not a valid JSON object of objects; expected {{"LOCATION": {{"OPTION": "text"}}}}'
            )
        return {location: options for location, options in options_by_location.items() if options}

    return read


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
    """An argparse type: comma-separated names, such as columns."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"the value is {text!r}; expected names, such as A,B")
    return names


def _versions(text: str) -> tuple[int, ...]:
    """An argparse type: comma-separated versions."""
    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"the value is {text!r}; expected versions, such as 3,7")
    return tuple(map(int, numbers))


def _size(text: str) -> int:
    """An argparse type: a size of at least 1 byte, such as 134217728 or 128mb."""
    try:
        return size(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; expected bytes or a text such as 128mb") from None


def _positive(text: str) -> int:
    """An argparse type: a whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"the value is {text!r}; expected a whole number of at least 1")
    return int(text)


def _number(text: str) -> float:
    """An argparse type: a number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"the value is {text!r}; expected a number of at least 0")
    return value


def _rate(text: str) -> float:
    """An argparse type: a number above 0."""
    value = _number(text)
    if not value:
        raise argparse.ArgumentTypeError(f"the value is {text!r}; expected a number above 0")
    return value


def _input(text: str) -> tuple[str, str]:
    """An argparse type: a name and a location."""
    name, separator, uri = text.partition("=")
    if not separator or not uri or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"the value is {text!r}; expected NAME=URI with a name that SQL can use")
    return name, uri


@dataclass(frozen=True)
class _ValueKind:
    """How a kind of value is shown in ``--help``, parsed, and written as text."""

    metavar: str
    parse: Callable[[str], Any] = str
    text: Callable[[Any], str] = str


_KINDS: Mapping[Kind, _ValueKind] = {
    "application": _ValueKind("ID"),
    "assignments": _ValueKind("JSON", _texts, json.dumps),
    "bytes": _ValueKind("BYTES", _size),
    "clauses": _ValueKind("JSON", _clauses, json.dumps),
    "condition": _ValueKind("SQL"),
    "count": _ValueKind("N", _positive),
    "file": _ValueKind("FILE"),
    "hours": _ValueKind("HOURS", _number),
    "inputs": _ValueKind("NAME=URI", _input),
    "integer": _ValueKind("N", int),
    "location": _ValueKind("URI"),
    "locations": _ValueKind("URI"),
    "names": _ValueKind("A,B", _names, ",".join),
    "rate": _ValueKind("N", _rate),
    "seconds": _ValueKind("SECONDS", _number),
    "text": _ValueKind("TEXT"),
    "text_list": _ValueKind("TEXT"),
    "texts": _ValueKind("JSON", _texts, json.dumps),
    "version": _ValueKind("VERSION"),
    "versions": _ValueKind("N,N", _versions, lambda versions: ",".join(map(str, versions))),
}
