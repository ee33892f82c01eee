"""Equality of orders of calls: equal orders differ only by the order of independent calls."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from tests.simulation.simulation import Call

_READS = ("read", "head", "list")
#: A place that every other call depends on.
_EVERYTHING = "overtake"


def independent(call: Call, other: Call) -> bool:
    """Whether the order of two calls of different actors has no effect."""
    if _EVERYTHING in (call.verb, other.verb):
        return False
    if call.verb in _READS and other.verb in _READS:
        return True
    if call.verb == "list" or other.verb == "list":
        listing, change = (call, other) if call.verb == "list" else (other, call)
        return bool(listing.path) and not change.path.startswith(f"{listing.path}/")
    return call.path != other.path


def shape(calls: Sequence[Call]) -> int:
    """A number for a run's partial order: the depth of each call in it (the Foata normal form), hashed.

    Data files have random names, so each is counted as the n-th file of its writer.
    """
    names: dict[str, str] = {}
    made: Counter[str] = Counter()
    actors: dict[str, int] = {}
    changed: dict[str, int] = {}
    read: dict[str, int] = {}
    depths = []
    floor = 0
    for call in calls:
        path = call.path
        if call.verb == _EVERYTHING:
            floor = max([floor, *actors.values()]) + 1
            actors[call.actor] = floor
            depths.append((floor, call.actor, call.verb, path))
            continue
        if path.startswith("part-"):
            if path not in names and call.verb == "put":
                made[call.actor] += 1
                names[path] = f"{call.actor} {made[call.actor]}"
            path = names.get(path, path)
            folder = ""
        else:
            folder = path if call.verb == "list" else "_delta_log"
        before = max(actors.get(call.actor, 0), floor)
        if call.verb == "list":
            depth = max(before, changed.get(f"in {folder}", 0)) + 1
            read[f"in {folder}"] = max(read.get(f"in {folder}", 0), depth)
        elif call.verb in _READS:
            depth = max(before, changed.get(path, 0)) + 1
            read[path] = max(read.get(path, 0), depth)
        else:
            listed = max(read.get("in ", 0), read.get(f"in {folder}", 0))
            depth = max(before, changed.get(path, 0), read.get(path, 0), listed) + 1
            changed[path] = depth
            for where in {f"in {folder}", "in "}:
                changed[where] = max(changed.get(where, 0), depth)
        actors[call.actor] = depth
        depths.append((depth, call.actor, call.verb, path))
    depths.sort()
    return int.from_bytes(hashlib.blake2b(repr(depths).encode(), digest_size=8).digest(), "big")
