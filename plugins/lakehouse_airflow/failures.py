"""How errors of the library become errors of Airflow.

The task's log shows the library's own message, once, without the stack below it. What a retry cannot mend fails the
task at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from lakehouse_lib.fleet.registry import RegistryError, RegistryUnreadableError


@contextmanager
def rewritten(change: Callable[[str], str]) -> Iterator[None]:
    """Errors of Airflow that leave the block have the text that ``change`` makes of theirs."""
    try:
        yield
    except AirflowException as error:
        message = change(str(error))
        if message == str(error):
            raise
        kind = AirflowFailException if isinstance(error, AirflowFailException) else AirflowException
        raise kind(message) from None


def failure(kind: str, message: str) -> AirflowException:
    """The exception for an error of that type name: AirflowFailException for bad input, else one that is retried.

    Lost races, a failing store and errors that are not the library's own (a lost executor, memory) may pass; and every
    task's verb may be repeated, so one whose commit is unknown is, too.
    """
    from lakehouse_lib import errors

    error = getattr(errors, kind, None)
    is_library_error = isinstance(error, type) and issubclass(error, errors.DeltaError)
    passing = not is_library_error or issubclass(
        error, errors.CommitFailedError | errors.CommitUnknownError | errors.StoreError
    )
    return (AirflowException if passing else AirflowFailException)(f"{kind}: {message}")


@contextmanager
def as_task_failure() -> Iterator[None]:
    """Errors of the library and the registry inside leave as Airflow's, by ``failure``'s rule.

    A registry that cannot be read is tried again: it may be being written just now.
    """
    from lakehouse_lib.errors import DeltaError

    try:
        yield
    except DeltaError as error:
        raise failure(type(error).__name__, str(error)) from None
    except RegistryUnreadableError as error:
        raise AirflowException(str(error)) from None
    except RegistryError as error:
        raise AirflowFailException(str(error)) from None
