"""Translate errors of the library into Airflow's exceptions.

The task's log shows the library's message once, without a traceback. If a retry cannot help, the task fails at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException


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
