"""A job's command line: the parser of its parameters, and the function by which an operator writes the arguments.

Both are in one module, so that the parser understands every argument that an operator writes.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from lakehouse_lib import command_options
from lakehouse_lib.catalogue.operation import Parameter
from lakehouse_lib.command_options import (
    LONG_KINDS,
    STORAGE_OPTIONS,
    add_parameter,
    add_storage_options,
    argument_text,
    flag_option,
    option,
    parse_json,
)
from lakehouse_lib.errors import InvalidArgumentError
from spark_jobs.process.private_files import is_private, read_private

#: The folder in which the job puts its objects (``process.job_objects``), and the name of these objects.
JOB_FOLDER = Parameter("job_folder", "location", "the folder of a store for the job's outcome; default: none")
JOB_NAME = Parameter("job_name", "text", "the name of the job's objects in --job-folder")

_COMMIT_METADATA = "commit_metadata_file"
#: The option for the file that names a Spark Connect server.
SPARK_CONNECT = option("spark_connect_file")
#: The options for files whose texts may differ between two tries of the same work.
TRY_OPTIONS = frozenset((option(STORAGE_OPTIONS), option(_COMMIT_METADATA), SPARK_CONNECT))


class Arguments(argparse.ArgumentParser):
    """The parser of a job. It raises the job's errors.

    ``lakehouse_lib.command_options`` makes the options of the parameters. Every job also has the options
    ``--storage-options-file``, ``--commit-metadata-file``, ``--spark-connect-file``, ``--job-folder`` and
    ``--job-name``.
    """

    def __init__(self, job: str, description: str, parameters: Sequence[Parameter]) -> None:
        super().__init__(prog=f"spark_jobs.{job}", description=description, allow_abbrev=False)
        self.job = job
        add_storage_options(self, read_text_file)
        self.add_argument(
            option(_COMMIT_METADATA),
            dest="commit_metadata",
            type=_commit_metadata,
            default={},
            metavar="FILE",
            help="fields for the commitInfo of every commit of the job as JSON, such as who has started it",
        )
        self.add_argument(
            SPARK_CONNECT,
            dest="spark_connect",
            type=_spark_connect,
            default=None,
            metavar="FILE",
            help="the URL of a Spark Connect server, and Spark properties of the session, as JSON; default: no server",
        )
        for parameter in (*parameters, JOB_FOLDER, JOB_NAME):
            add_parameter(self, parameter, read_text_file)

    def error(self, message: str) -> NoReturn:
        raise InvalidArgumentError(message, hint=f"See python -m spark_jobs.{self.job} --help")


def command_line(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> list[str]:
    """The arguments that pass ``values`` to a job. None and default values are left out.

    An option and its value are one argument (``--name=value``), so that a value cannot be read as an option.

    Args:
        parameters: the parameters of the job.
        values: parameter name -> value.

    Raises:
        InvalidArgumentError: the job does not have a parameter of this name, or a command line cannot have the value.
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
            arguments.append(flag_option(parameter))
        elif parameter.kind == "inputs":
            arguments += [f"{option(name)}={each}={uri}" for each, uri in value]
        elif parameter.kind in ("locations", "text_list"):
            arguments += [f"{option(name)}={each}" for each in value]
        else:
            arguments.append(f"{option(name)}={argument_text(parameter, value)}")
    return arguments


def file_option(parameters: Sequence[Parameter], name: str) -> str:
    """The option whose value is the path of the file ``name``.

    Args:
        name: a parameter of the kind ``file``; the name of a condition, of assignments, of clauses or of a mapping of
            texts with the suffix ``_file``; ``storage_options_file`` or ``commit_metadata_file``.

    Raises:
        InvalidArgumentError: the job does not read this file.
    """
    files = [parameter.name for parameter in parameters if parameter.kind == "file"]
    files += [f"{parameter.name}_file" for parameter in parameters if parameter.kind in LONG_KINDS]
    files += [STORAGE_OPTIONS, _COMMIT_METADATA]
    if name not in files:
        raise InvalidArgumentError(f"the file is {name!r}; expected one of {', '.join(files)}")
    return option(name)


def read_json_file(path: str, what: str) -> Any:
    """The value of a JSON file on the command line.

    Args:
        path: the path of a file, or ``private:NAME``.
        what: the name of the file for errors, such as ``the suite file``.

    Raises:
        InvalidArgumentError: the file cannot be read or is not JSON.
    """
    return parse_json(read_text_file(path, what), path, what)


def read_text_file(path: str, what: str) -> str:
    """The text of a file on the command line. The arguments are those of ``read_json_file``.

    Raises:
        InvalidArgumentError: the file cannot be read.
    """
    if not is_private(path):
        return command_options.read_text_file(path, what)
    try:
        return read_private(path)
    except (OSError, UnicodeError) as error:
        raise command_options.unreadable_file(path, what, error) from error


def _commit_metadata(path: str) -> dict[str, Any]:
    """An argparse type: fields of commitInfo, from a JSON file."""
    try:
        fields = read_json_file(path, "the file of commit metadata")
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    if not isinstance(fields, dict):
        raise argparse.ArgumentTypeError(f'{path} is not a valid JSON object; expected {{"FIELD": VALUE, ...}}')
    return fields


def _spark_connect(path: str) -> dict[str, Any]:
    """An argparse type: the URL of a Spark Connect server and properties of the session, from a JSON file."""
    try:
        server = read_json_file(path, "the file of the Spark Connect server")
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    is_server = isinstance(server, dict) and set(server) == {"url", "properties"}
    if not is_server or not isinstance(server["url"], str) or not isinstance(server["properties"], dict):
        raise argparse.ArgumentTypeError(
            f'{path} does not describe a server; expected {{"url": "sc://HOST:PORT", "properties": {{NAME: VALUE}}}}'
        )
    return server
