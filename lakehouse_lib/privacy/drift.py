"""Compare a person's rows now with an approved plan: new keys, lost keys, moved and recreated tables.

The functions get the rows and the plan as arguments, and read no table.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse_lib.fleet.registry import Registry
from lakehouse_lib.privacy.places import Place


def find_arrivals(then: Mapping[str, Place], now: Mapping[str, Place]) -> list[str]:
    """The sorted names of the tables with keys that the plan does not have, or with rows although the plan has no rows.

    More rows of a planned key do not count, because the plan's predicate finds them.
    """
    return sorted(table for table, place in now.items() if _has_more(then.get(table), place))


def has_lost_keys(then: Mapping[str, Place], now: Mapping[str, Place]) -> bool:
    """Whether a key of the plan is missing now, because the row that led to it was deleted."""
    return any(
        not now[table].keys.covers(place.keys) if table in now else not place.keys.is_empty
        for table, place in then.items()
    )


def find_moves(then: Mapping[str, Place], registry: Registry, subject: str) -> list[str]:
    """A sentence for each of the plan's tables that the registry has moved, or dropped from the subject."""
    subject_tables = set(registry.subject(subject).tables())
    moves = []
    for table, place in sorted(then.items()):
        entry = registry.find(table)
        if table not in subject_tables or entry is None:
            moves.append(f"{table} is not a table of the subject {subject} any more")
        elif entry.uri != place.uri:
            moves.append(f"{table} is at {entry.uri}; the plan has {place.uri}")
    return moves


def find_recreated(then: Mapping[str, Place], now: Mapping[str, Place]) -> list[str]:
    """The sorted names of the tables that were recreated at their location after the plan was made."""
    return sorted(table for table, place in then.items() if table in now and now[table].table_id != place.table_id)


def _has_more(before: Place | None, now: Place) -> bool:
    if now.rows and (before is None or not before.has_rows):
        return True
    # The quarantine of a planned table has the same keys; its keys count as new only if it has a row of the person.
    return before is not None and not before.keys.covers(now.keys)
