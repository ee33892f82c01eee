"""The errors of a task: those of the plugin, and the translation of the library's errors into Airflow's exceptions.

    AirflowFailException           a retry does not help
    └── TaskError
        ├── InvalidParameterError    a parameter of an operator, a param of the DAG run or an XCom value
        ├── InvalidConnectionError   an Airflow connection
        ├── RegistryValueError       a value that this task needs from the registry
        ├── NotApprovedError         a plan without a valid approval
        ├── PlanOutdatedError        tables or the registry changed after the plan
        ├── NotErasedError           files with rows of an erased person remain
        └── TableDamagedError        files that the library cannot repair
    AirflowException               a retry may help
    └── JobError                     a Spark job that did not start, or that left no outcome

The text of an error begins with its code, as in the library; docs/errors.md lists the codes. The task's log shows the
text once, without a traceback. If a retry cannot help, the task fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException


class TaskError(AirflowFailException):
    """A task failed, and a retry does not help.

    Attributes:
        code: the stable code of the problem.
    """

    code: str

    def __init__(self, message: str) -> None:
        super().__init__(f"[{self.code}] {message}")


class InvalidParameterError(TaskError):
    """A parameter of an operator, a param of the DAG run or an XCom value is not valid."""

    code = "LAKEHOUSE_INVALID_PARAMETER"


class InvalidConnectionError(TaskError):
    """An Airflow connection is missing, or has a value that cannot be used."""

    code = "LAKEHOUSE_INVALID_CONNECTION"


class RegistryValueError(TaskError):
    """The registry lacks a value that this task needs, or has one that this task cannot use."""

    code = "LAKEHOUSE_REGISTRY_VALUE"


class NotApprovedError(TaskError):
    """A plan has no valid approval."""

    code = "LAKEHOUSE_NOT_APPROVED"


class PlanOutdatedError(TaskError):
    """Tables, their rows or the registry changed after the plan, and the task has changed nothing."""

    code = "LAKEHOUSE_PLAN_OUTDATED"


class NotErasedError(TaskError):
    """Files with rows of the erased person remain."""

    code = "LAKEHOUSE_NOT_ERASED"


class TableDamagedError(TaskError):
    """A table lacks files that the library cannot repair."""

    code = "LAKEHOUSE_TABLE_DAMAGED"


class JobError(AirflowException):
    """A Spark job did not start, or left no outcome. A retry may help.

    Attributes:
        code: the stable code of the problem.
    """

    code = "LAKEHOUSE_JOB_FAILED"

    def __init__(self, message: str) -> None:
        super().__init__(f"[{self.code}] {message}")


@contextmanager
def rewrite_messages(change: Callable[[str], str]) -> Iterator[None]:
    """Apply ``change`` to the text of Airflow's exceptions that leave the block."""
    try:
        yield
    except AirflowException as error:
        message = change(str(error))
        if message == str(error):
            raise
        kind = AirflowFailException if isinstance(error, AirflowFailException) else AirflowException
        raise kind(message) from None


def failure(kind: str, message: str) -> AirflowException:
    """The exception for an error whose class is named ``kind``: AirflowException if a retry may help, else
    AirflowFailException.

    A retry may help after a lost race, an error of the store, a registry that cannot be read, or an error outside the
    library (a lost executor, too little memory). A commit with an unknown outcome is also retried.
    """
    from lakehouse_lib import errors

    error = getattr(errors, kind, None)
    is_library_error = isinstance(error, type) and issubclass(error, errors.DeltaError)
    is_temporary = not is_library_error or issubclass(
        error, errors.CommitFailedError | errors.CommitUnknownError | errors.StoreError | errors.RegistryUnreadableError
    )
    return (AirflowException if is_temporary else AirflowFailException)(f"{kind}: {message}")


@contextmanager
def as_task_failure() -> Iterator[None]:
    """Translate errors of the library that leave the block, by the rule of ``failure``."""
    from lakehouse_lib import errors

    try:
        yield
    except errors.DeltaError as error:
        raise failure(type(error).__name__, str(error)) from None
