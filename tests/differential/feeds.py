"""The change data feed of a verb, and its differences from the versions before and after it, and from another feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tests.peers import plain

#: The property of a table that has a feed.
FEED = {"delta.enableChangeDataFeed": "true"}
KINDS_OF_CHANGE = ("insert", "delete", "update_preimage", "update_postimage")
#: Verbs that change no row.
REARRANGEMENTS = ("compact", "z_order", "checkpoint", "vacuum")

#: How often each row occurs in each kind of change.
Feed = Mapping[str, Counter[str]]


def feed_of(changes: pa.Table | None, columns: list[str]) -> Feed:
    """The feed in rows that a program read; None: no commit.

    Updates that change no value are left out, because delta-rs records none of them.
    """
    if changes is None:
        return {kind: Counter() for kind in KINDS_OF_CHANGE}
    changes = plain(changes)
    feed = {
        kind: counted_rows(changes.filter(pc.equal(changes["_change_type"], kind)).select(columns))
        for kind in KINDS_OF_CHANGE
    }
    before, after = feed["update_preimage"], feed["update_postimage"]
    return feed | {"update_preimage": before - after, "update_postimage": after - before}


def effect_difference(feed: Feed, before: pa.Table, after: pa.Table) -> str:
    """The difference between a feed and the rows that differ between two versions, both plain; "": there is none."""
    effect = counted_rows(_with_columns_of(after, before))
    effect.update(feed["insert"] + feed["update_postimage"])
    effect.subtract(feed["delete"] + feed["update_preimage"])
    effect.subtract(counted_rows(after))
    if any(effect.values()):
        return f"the feed has more than the effect of the verb {some_of(+effect)}, and less {some_of(-effect)}"
    return ""


def without_equal_images(feed: Feed, before: pa.Table, after: pa.Table) -> Feed:
    """The feed without preimages that equal a row of ``after``, and without postimages that equal a row of ``before``.

    An update of delta-rs leaves out such images, also if the equal row is another row. Then its feed is not the effect
    of the update.
    """
    others = {"update_preimage": counted_rows(after), "update_postimage": counted_rows(_with_columns_of(after, before))}
    images = {
        kind: Counter({row: count for row, count in feed[kind].items() if row not in rows})
        for kind, rows in others.items()
    }
    return {**feed, **images}


def feeds_difference(first: Feed, second: Feed, titles: tuple[str, str]) -> str:
    """The difference between two feeds; "": there is none."""
    for kind in KINDS_OF_CHANGE:
        more, fewer = first[kind] - second[kind], second[kind] - first[kind]
        if more or fewer:
            return f"the feeds differ in {kind}: only {titles[0]} {some_of(more)}, only {titles[1]} {some_of(fewer)}"
    return ""


def _with_columns_of(after: pa.Table, before: pa.Table) -> pa.Table:
    for column in after.schema:
        if column.name not in before.column_names:
            before = before.append_column(column, pa.nulls(len(before), column.type))
    return before.select(after.column_names)


def counted_rows(rows: pa.Table) -> Counter[str]:
    """How often each row of a plain table occurs."""
    return Counter(map(repr, rows.to_pylist()))


def some_of(rows: Counter[str]) -> str:
    """The number of rows, and two of them."""
    return f"{rows.total()} rows, {sorted(rows)[:2]} among them"
