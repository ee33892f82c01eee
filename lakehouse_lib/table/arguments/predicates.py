"""Checks of a predicate, which selects the rows that a verb changes, and of a label, which is shown instead of it."""

from __future__ import annotations

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt


def check_predicate_text(predicate: object, *, table: str) -> None:
    """Refuse a predicate that is not text. An empty list of filters would select all rows."""
    if predicate is not None and not isinstance(predicate, str):
        raise InvalidArgumentError(
            f"the predicate is {predicate!r}; expected SQL text",
            table=table,
            hint="Write it as SQL; None means all rows",
        )


def check_label(label: object, predicate: str | None, *, table: str) -> None:
    """Refuse a label that is not text of 1 to 200 characters, or that is given without a predicate."""
    if label is not None and (predicate is None or not isinstance(label, str) or not 0 < len(label) <= 200):
        raise InvalidArgumentError(
            f"label is {excerpt(label)}{'' if predicate is not None else ' without a predicate'}; expected text of "
            "1 to 200 characters with a predicate",
            table=table,
            hint="Leave the label out, or give it together with a predicate",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )
