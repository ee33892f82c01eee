"""Quarantined records of which no key column says whose they are.

A record that could not be taken apart into columns is kept as text in ``_raw``; another has no key, or one that is no
value of the key's type. A predicate on the key cannot find a person there, so these records are counted, and those
that hold one of the person's keys as a whole field are named for somebody to look at. They are no matches by
themselves: the field may as well be a quantity, and the record another person's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import predicates
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.privacy import sql
from lakehouse_lib.snapshot import Snapshot

_RAW = "_raw"
#: What the load says of a quarantined record, and where it came from.
_META = ("_source", "_file", "_line", "_column", "_rule", _RAW)

# Whatever a source delimits and quotes fields with separates; a date, a decimal and a phone number stay one field.
_SEPARATORS = r"[^0-9A-Za-z_.+\-]+"
_FIELD = re.compile(r"[0-9A-Za-z_.+\-]+")


@dataclass(frozen=True)
class Unattributed:
    """Such records in the live version of one quarantine table.

    Attributes:
        predicate: SQL that is true of all of them.
        records: how many.
        mentions: how many of them hold one of the keys as a whole field.
        mentions_predicate: SQL that is true of exactly those, by source, file and line.
        places: where those came from: ``FILE line N``, sorted.
    """

    predicate: str
    records: int
    mentions: int
    mentions_predicate: str
    places: tuple[str, ...]


def find(snapshot: Snapshot, key: str, values: Iterable[int | str], engine: Engine) -> Unattributed | None:
    """The records of a quarantine that ``key`` does not attribute to anybody; None for a table without ``_raw``.

    Args:
        values: the keys looked for; a text that is no single field is looked for anywhere in the record.
    """
    if any(name not in snapshot.schema for name in _META):
        return None
    column = sql.name(snapshot.field(key).name)
    unread = f"`_column` = {sql.literal(key)} AND `_rule` IS NULL"
    condition = f"`{_RAW}` IS NOT NULL OR {column} IS NULL OR ({unread})"
    predicate = predicates.parse(condition, snapshot.schema, table=snapshot.store.root)
    names = ["_source", "_file", "_line", _RAW, snapshot.field(key).name]
    reader: pa.RecordBatchReader = engine.read(snapshot, names, predicate)
    texts = {str(value) for value in values}
    records = 0
    lines: dict[tuple[str, str], set[int]] = defaultdict(set)
    for batch in reader:
        records += len(batch)
        text = pc.coalesce(batch.column(_RAW), batch.column(names[-1]))
        found = batch.filter(_mentions(text, texts))
        for source, file, line in zip(*(found.column(name).to_pylist() for name in names[:3]), strict=True):
            lines[source, file].add(line)
    return Unattributed(
        predicate=condition,
        records=records,
        mentions=sum(map(len, lines.values())),
        mentions_predicate=" OR ".join(_at(snapshot, *place, lines[place]) for place in sorted(lines)) or sql.NOTHING,
        places=tuple(f"{file} line {line}" for _, file in sorted(lines) for line in sorted(lines[_, file])),
    )


def _mentions(text: pa.Array, values: set[str]) -> pa.Array:
    fields = pc.split_pattern_regex(pc.fill_null(text, ""), _SEPARATORS)
    hits = pc.is_in(pc.list_flatten(fields), value_set=pa.array(sorted(values), pa.string()))
    rows = pc.unique(pc.list_parent_indices(fields).filter(hits))
    found = pc.is_in(pa.array(range(len(text)), rows.type), value_set=rows)
    for value in values:
        if not _FIELD.fullmatch(value):
            found = pc.or_(found, pc.fill_null(pc.match_substring(text, value), False))
    return found


def _at(snapshot: Snapshot, source: str, file: str, lines: set[int]) -> str:
    wanted = (("_source", [source]), ("_file", [file]), ("_line", lines))
    conditions = [sql.is_one_of(name, snapshot.field(name).type, values) for name, values in wanted]
    return f"({' AND '.join(conditions)})"
