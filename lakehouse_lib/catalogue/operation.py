"""The description of an operation: its parameters, its function and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from lakehouse_lib.operations.results import OperationResult

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.snapshot import Snapshot

#: The kind of a parameter's value. ``application``: an application id; the commit gets its transaction 1.
#: ``condition``: SQL text. ``assignments``: a mapping of columns to SQL. ``clauses``: a list of mappings of a method to
#: its arguments. ``file``: a path. ``location``: a path or a URI. ``locations``: a list of locations. ``inputs``: pairs
#: of a name and a location. ``names``: a tuple of names. ``texts``: a mapping of names to texts. ``text_list``: a list
#: of texts. ``version``: a version or a time. ``versions``: a tuple of versions. ``flag``: a bool. ``integer``: an int.
#: ``bytes``, ``count``: an int of at least 1. ``hours``, ``seconds``: a float of at least 0. ``rate``: a float above 0.
Kind = Literal[
    "application",
    "assignments",
    "bytes",
    "clauses",
    "condition",
    "count",
    "file",
    "flag",
    "hours",
    "inputs",
    "integer",
    "location",
    "locations",
    "names",
    "rate",
    "seconds",
    "text",
    "text_list",
    "texts",
    "version",
    "versions",
]


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation.

    Attributes:
        help: its text in ``--help``.
        kind: the kind of its value.
        default: its value if it is left out.
        required: whether it must be given.
        choices: the valid texts; empty: all.
        keyword: the name of the argument of the operation's function; empty: the parameter's name.
        opposite: the name of the option that turns off a flag that is on by default; empty: ``no_NAME``.
    """

    name: str
    kind: Kind
    help: str
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    keyword: str = ""
    opposite: str = ""


@dataclass(frozen=True)
class Operation:
    """A verb that jobs and operators run.

    Attributes:
        name: a Python name; the job of an operation that needs an engine is ``spark_jobs.NAME``.
        description: its text in ``--help``.
        function: its function, as ``module:name`` below ``lakehouse_lib``.
        result: the type of the function's result; ``erase`` returns one result for each delete.
        moves_bytes: whether it needs an engine, because it reads or writes data files; Airflow submits it as a job.
        has_progress: whether its function takes ``on_progress``.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    function: str
    result: type[OperationResult]
    moves_bytes: bool
    has_progress: bool = False

    def load(self) -> Callable[..., Any]:
        """Import the function and return it."""
        module, _, name = self.function.partition(":")
        value: Any = import_module(f"lakehouse_lib.{module}")
        for part in name.split("."):
            value = getattr(value, part)
        function: Callable[..., Any] = value
        return function


class TableOperation(Operation):
    """An operation on one table, the parameter ``table``."""

    def run(self, snapshot: Snapshot, engine: Engine | None = None, **arguments: Any) -> Any:
        """Run the operation on the table of a snapshot, and return its ``result``.

        Args:
            engine: the engine of an operation that needs one.
            arguments: values of the parameters except ``table``, and other arguments of the function. A parameter that
                is left out has its default, whatever the default of the function is. A condition is SQL text,
                assignments have SQL texts, and a version may be text of digits.
        """
        from lakehouse_lib.expressions import parse
        from lakehouse_lib.table.arguments.assignments import parsed_assignments
        from lakehouse_lib.transaction.commit_properties import single_commit

        for parameter in self.parameters:
            keyword = parameter.keyword or parameter.name
            if parameter.name not in arguments:
                if not parameter.required:
                    arguments.setdefault(keyword, parameter.default)
                continue
            value = arguments.pop(parameter.name)
            if parameter.kind == "application":
                value = single_commit(value)
            if parameter.kind == "assignments":
                value = parsed_assignments(value, snapshot)
            if parameter.kind == "condition" and value is not None:
                value = parse(value, snapshot.schema, table=snapshot.store.root)
            if parameter.kind == "version" and isinstance(value, str) and value.isdecimal():
                value = int(value)  # a template or a command line gives text
            arguments[keyword] = value
        if self.moves_bytes:
            arguments["engine"] = engine
        return self.load()(snapshot=snapshot, **arguments)
