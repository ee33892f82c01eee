"""A check of post-commit hooks: they fail only if the store fails."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

from lakehouse_lib.errors import DeltaError
from lakehouse_lib.transaction import post_commit
from tests.simulation.ledger import Violation


@contextmanager
def hooks_watched(is_explained: Callable[[DeltaError, str], bool]) -> Iterator[None]:
    """Post-commit hooks may fail if the store fails, which is logged. Any other failure is a violation.

    Args:
        is_explained: whether the store of this root has failed, or the error has another explanation.
    """

    def warn(message: str, *arguments: object, **_named: object) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, Violation):
            raise error
        if not isinstance(error, DeltaError) or not is_explained(error, str(arguments[-1])):
            why = "".join(traceback.format_exception(error)) if error is not None else ""
            raise Violation(f"{message % arguments} {why}")

    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with mock.patch.object(post_commit.logger, "warning", warn):
            yield
    finally:
        logging.disable(before)
