"""Add actions for files that another program has written: the checks before the commit, and the files table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.written_files import NewFile, files_table
from lakehouse_lib.engine.partition_texts import logged_values
from lakehouse_lib.errors import ConstraintViolatedError, DeltaError, InvalidArgumentError
from lakehouse_lib.json_text import excerpt, parse_json
from lakehouse_lib.operations.missing_files import without_object
from lakehouse_lib.protocol import file_paths

_INT64 = range(2**63)


@dataclass
class AddAction:
    """A data file that a table gets.

    Attributes:
        path: relative to the table's folder, without percent-encoding.
        size: in bytes.
        partition_values: partition column -> the text of the value; None: null.
        modification_time: ms since the epoch.
        data_change: whether the file has new rows.
        stats: statistics as JSON; an empty text: none.
    """

    path: str
    size: int
    partition_values: Mapping[str, str | None]
    modification_time: int
    data_change: bool
    stats: str


def added_files(actions: Sequence[AddAction], target: WriteTarget) -> pa.Table:
    """The files table of add actions.

    Raises:
        InvalidArgumentError: an action is not valid, does not fit the partition columns of the table, names a file that
            does not exist, or names the same file as another action.
        PathOutsideTableError: a file is outside the folder of the table.
        ConstraintViolatedError: a partition value of a NOT NULL column is null.
    """
    table = target.store.root
    for action in actions:
        problem = _problem(action, target)
        if problem is not None:
            raise _refusal(problem, table)
    values = values_of_existing([action.partition_values for action in actions], target)
    rows = [
        NewFile(
            file_paths.encode_any(action.path, target.store),
            partition,
            action.size,
            action.modification_time,
            action.stats or None,
        )
        for action, partition in zip(actions, values, strict=True)
    ]
    files = pa.concat_tables(
        [
            files_table(
                [row for row, action in zip(rows, actions, strict=True) if action.data_change is flag], data_change=flag
            )
            for flag in (True, False)
        ]
    )
    paths = file_paths.decode_all(files["path"], target.store)
    if len(paths.unique()) < len(paths):
        raise _refusal("two actions have the same path", table)
    missing = without_object(files, target.store)["path"].to_pylist()
    if missing:
        raise _refusal(f"{len(missing)} files do not exist: {', '.join(missing[:10])}", table)
    return files


def values_of_existing(parsed: Sequence[Mapping[str, str | None]], target: WriteTarget) -> list[dict[str, str | None]]:
    """The partition values (``logged_values``) of files that another program has written.

    NOT NULL is checked here, because no rule has checked the rows of these files.

    Raises:
        InvalidArgumentError: a text is not a valid value of its column.
        ConstraintViolatedError: a value of a NOT NULL column is null.
    """
    values = logged_values(parsed, target)
    for name, key in target.layout.partition_keys.items():
        if not target.layout.schema.field(name).nullable and any(row[key] is None for row in values):
            raise ConstraintViolatedError(
                f"the partition values violate NOT NULL {name}",
                table=target.store.root,
                hint="Make the column nullable, or leave out the files of the null partition",
            )
    return values


def _problem(action: AddAction, target: WriteTarget) -> str | None:
    """The reason why an action is not valid; None: the action is valid."""
    columns = set(target.layout.partition_columns)
    if not isinstance(action.path, str) or not action.path:
        return f"path is {excerpt(action.path)}; expected text"
    for name, value in (("size", action.size), ("modification_time", action.modification_time)):
        if type(value) is not int or value not in _INT64:
            return f"{name} of {action.path} is {excerpt(value)}; expected a whole number from 0"
    flag: object = action.data_change
    if not isinstance(flag, bool):
        return f"data_change of {action.path} is {excerpt(flag)}; expected True or False"
    values = action.partition_values
    is_text = isinstance(values, Mapping) and all(isinstance(text, str | None) for text in values.values())
    if not is_text or set(values) != columns:
        expected = f"a text or None for each of {', '.join(sorted(columns))}" if columns else "no value"
        return f"partition_values of {action.path} are {excerpt(values)}; expected {expected}"
    try:
        stats = parse_json(action.stats) if action.stats else {}
    except (ValueError, TypeError, DeltaError):
        stats = None
    if not isinstance(stats, dict):
        return f"stats of {action.path} are {excerpt(action.stats)}; expected a JSON object"
    records = stats.get("numRecords", 0)
    if type(records) is not int or records not in _INT64:
        return f"numRecords of {action.path} is {excerpt(records)}; expected a whole number from 0"
    return None


def _refusal(problem: str, table: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"an add action is not valid: {problem}",
        table=table,
        hint="Nothing was committed. Correct the action",
        code="DELTA_INVALID_ADD_ACTION",
    )
