"""What has come for a person, what has gone and what has moved since the look at the tables that was approved.

Only the predicates say which keys were found, so they are taken apart again. A place is what was found in one table:
at least ``{"predicate", "rows"}``, and ``on_disk`` for those of the first look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp


def arrived(then: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Names of the tables with keys that were not found then, or with rows where there were none, sorted.

    More rows of a known key are none of them: the predicate of then is true of these, too.
    """
    return sorted(table for table, found in now.items() if _has_more(then.get(table), found))


def has_gone(then: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a key was found then that cannot be found any more, because the row that led to it is deleted."""
    return any(not keys(found["predicate"]) <= _known(now.get(table)) for table, found in then.items())


def moved(then: Mapping[str, Mapping[str, Any]], now: Mapping[str, str]) -> list[str]:
    """In words, the tables that are in another place now.

    Args:
        then: also with each place's ``uri``.
        now: {table: where it is}; of a table that is not in it nothing is said.
    """
    return [
        f"{table} at {now[table]}, not {found['uri']}"
        for table, found in sorted(then.items())
        if now.get(table, found["uri"]) != found["uri"]
    ]


def keys(predicate: str) -> set[frozenset[str]]:
    """Every combination of ``column = value`` for which a predicate of ``locate`` is true.

    Whatever else a condition is made of stays its own text.
    """
    import sqlglot

    from lakehouse_lib.privacy.sql import DIALECT

    return set(_combinations(sqlglot.parse_one(predicate, read=DIALECT)))


def _has_more(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> bool:
    had_rows = before is not None and (before["rows"] or before["on_disk"]["rows"])
    if now["rows"] and not had_rows:
        return True
    # A quarantine that is new has the keys of its table; they say nothing as long as it has no row of the person.
    return before is not None and not keys(now["predicate"]) <= keys(before["predicate"])


def _known(found: Mapping[str, Any] | None) -> set[frozenset[str]]:
    return keys(found["predicate"]) if found is not None else set()


def _combinations(condition: exp.Expression) -> Iterator[frozenset[str]]:
    from sqlglot import exp

    condition = condition.unnest()
    if isinstance(condition, exp.Or):
        for each in condition.flatten():
            yield from _combinations(each)
    elif isinstance(condition, exp.And):
        for parts in product(*(tuple(_combinations(each)) for each in condition.flatten())):
            yield frozenset().union(*parts)
    elif isinstance(condition, exp.In) and condition.expressions:
        for value in condition.expressions:
            yield frozenset([f"{condition.this.sql()} = {value.sql()}"])
    elif isinstance(condition, exp.Between):
        low, high = (int(condition.args[end].this) for end in ("low", "high"))
        for number in range(low, high + 1):
            yield frozenset([f"{condition.this.sql()} = {number}"])
    elif not (isinstance(condition, exp.Boolean) and not condition.this):
        yield frozenset([condition.sql()])
