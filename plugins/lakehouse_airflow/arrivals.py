"""What has come for a person, what has gone and what has moved since the plan that was approved. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakehouse_airflow.registry import Registry

if TYPE_CHECKING:
    from lakehouse_airflow.erasure_plan import Place


def arrived(then: Mapping[str, Place], now: Mapping[str, Place]) -> list[str]:
    """Names of the tables with keys that the plan does not have, or with rows where there were none, sorted.

    More rows of a known key are not among them: the plan's keys lead to these, too.
    """
    return sorted(table for table, place in now.items() if _has_more(then.get(table), place))


def has_gone(then: Mapping[str, Place], now: Mapping[str, Place]) -> bool:
    """Whether the plan has a key that cannot be found any more, because the row that led to it is deleted."""
    return any(
        not now[table].keys.covers(place.keys) if table in now else not place.keys.is_empty
        for table, place in then.items()
    )


def moved(then: Mapping[str, Place], registry: Registry, subject: str) -> list[str]:
    """In words, the plan's tables that the registry has in another place by now, or no more for that subject."""
    known = set(registry.subject(subject).tables())
    found = []
    for table, place in sorted(then.items()):
        entry = registry.find(table)
        if table not in known or entry is None:
            found.append(f"{table} is not a table of the subject {subject} any more")
        elif entry.uri != place.uri:
            found.append(f"{table} at {entry.uri}, not {place.uri}")
    return found


def made_anew(then: Mapping[str, Place], now: Mapping[str, Place]) -> list[str]:
    """Names of the tables that are other ones than those of the plan, at the same location, sorted."""
    return sorted(table for table, place in then.items() if table in now and now[table].table_id != place.table_id)


def _has_more(before: Place | None, now: Place) -> bool:
    if now.rows and (before is None or not before.has_rows):
        return True
    # A quarantine that is new has the keys of its table; they say nothing as long as it has no row of the person.
    return before is not None and not before.keys.covers(now.keys)
