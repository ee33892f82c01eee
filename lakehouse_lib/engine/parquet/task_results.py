"""Results of tasks that write data files. A task returns its error, so that the files of all tasks can be deleted."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pyarrow as pa

from lakehouse_lib.arrow.values import column
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.store import ObjectStore

#: One row for each task: its result and its error, pickled; one of them is null.
RESULT_SCHEMA = pa.schema([("result", pa.binary()), ("error", pa.binary())])


def result_of(run: Callable[[], Any]) -> pa.Table:
    """The result or the error of ``run``, as RESULT_SCHEMA."""
    try:
        result, error = pickle.dumps(run()), None
    except Exception as raised:
        result, error = None, _pickled(raised)
    return pa.Table.from_arrays([column([each], pa.binary()) for each in (result, error)], schema=RESULT_SCHEMA)


def is_failure(answer: pa.Table) -> bool:
    """Whether the table of a task is the error of ``result_of``."""
    return bool(answer.schema == RESULT_SCHEMA) and answer["error"].null_count < len(answer)


def _pickled(error: Exception) -> bytes:
    """The error with its traceback as a note, pickled; a DeltaError in its place if it cannot be unpickled."""
    note = traceback.format_exc()  # the traceback itself cannot be pickled
    if not isinstance(error, DeltaError):
        error.add_note(note)
    try:
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301 - of this task
    except Exception:  # an error whose constructor takes other arguments than its ``args``
        substitute = DeltaError(
            f"a task raised {type(error).__qualname__}: {error}", hint="The notes of this error have its traceback"
        )
        substitute.add_note(note)
        return pickle.dumps(substitute)
    return data


def results_of(answers: pa.Table, discard: Callable[[list[Any]], None]) -> list[Any]:
    """The results of tasks that this process started.

    Args:
        answers: the concatenated tables of ``result_of``; empty if there were no tasks.
        discard: deletes the files that tasks wrote, from their results.

    Raises:
        Exception: the error of a task, after the files of all tasks are deleted.
    """
    if not len(answers):
        return []
    results = [pickle.loads(data) for data in answers["result"].drop_null().to_pylist()]  # noqa: S301 - of own tasks
    errors = answers["error"].drop_null()
    if len(errors):
        discard(results)
        error: Exception = pickle.loads(errors[0].as_py())  # noqa: S301 - of an own task
        raise error
    return results


def delete_files(tables: Iterable[pa.Table], store: ObjectStore) -> None:
    """Delete the data files of files tables as far as possible; vacuum deletes the others."""
    for files in tables:
        with suppress(DeltaError):  # the caller reports the error that led here
            store.delete_many(file_paths.decode_all(files["path"], store).to_pylist())
