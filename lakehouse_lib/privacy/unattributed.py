"""Quarantined records of which no key column says whose they are.

A record that could not be taken apart into columns is kept as text in ``_raw``; another has no key, or one that is no
value of the key's type, whether it was refused for that or for another column. A predicate on the key cannot find a
person there, so these records are counted, and those that hold one of the person's keys as a whole field are named for
somebody to look at. They are no matches by themselves: the field may as well be a quantity, and the record another
person's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import predicates
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.privacy import sql
from lakehouse_lib.privacy.key_texts import KeyTexts
from lakehouse_lib.schema import PrimitiveType
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


def find(snapshot: Snapshot, key: str, keys: KeyTexts, engine: Engine) -> Unattributed | None:
    """The records of a quarantine that ``key`` does not attribute to anybody; None for a table without ``_raw``.

    Args:
        keys: that are looked for; one that is no single field is looked for anywhere in the record.
    """
    if any(name not in snapshot.schema for name in _META):
        return None
    column = sql.name(snapshot.field(key).name)
    unread = f"`_column` = {sql.literal(key)} AND `_rule` IS NULL"
    condition = f"`{_RAW}` IS NOT NULL OR {column} IS NULL OR ({unread})"
    ill_typed = _ill_typed(snapshot, key, keys, engine)
    if ill_typed:
        condition += f" OR {sql.is_one_of(snapshot.field(key).name, snapshot.field(key).type, ill_typed)}"
    predicate = predicates.parse(condition, snapshot.schema, table=snapshot.store.root)
    names = ["_source", "_file", "_line", _RAW, snapshot.field(key).name]
    reader: pa.RecordBatchReader = engine.read(snapshot, names, predicate)
    records = 0
    lines: dict[tuple[str, str], set[int]] = defaultdict(set)
    for batch in reader:
        records += len(batch)
        text = pc.coalesce(batch.column(_RAW), batch.column(names[-1]))
        found = batch.filter(_mentions(text, keys))
        for source, file, line in zip(*(found.column(name).to_pylist() for name in names[:3]), strict=True):
            lines[source, file].add(line)
    return Unattributed(
        predicate=condition,
        records=records,
        mentions=sum(map(len, lines.values())),
        mentions_predicate=" OR ".join(_at(snapshot, *place, lines[place]) for place in sorted(lines)) or sql.NOTHING,
        places=tuple(f"{file} line {line}" for _, file in sorted(lines) for line in sorted(lines[_, file])),
    )


def _ill_typed(snapshot: Snapshot, key: str, keys: KeyTexts, engine: Engine) -> set[str]:
    """Texts in which no key can be read, of records that name another column as the first that is faulty."""
    field = snapshot.field(key)
    if keys.text_is_key or field.type != PrimitiveType("string"):
        return set()
    other = f"`{_RAW}` IS NULL AND NOT (`_column` <=> {sql.literal(key)} AND `_rule` IS NULL)"
    predicate = predicates.parse(other, snapshot.schema, table=snapshot.store.root)
    reader: pa.RecordBatchReader = engine.read(snapshot, [field.name], predicate)
    found: set[str] = set()
    for batch in reader:
        texts = pc.unique(pc.drop_null(batch.column(0)))
        found.update(texts.filter(keys.unreadable(texts)).to_pylist())
    return found


def _mentions(text: pa.Array, keys: KeyTexts) -> pa.Array:
    fields = pc.split_pattern_regex(pc.fill_null(text, ""), _SEPARATORS)
    flat = pc.list_flatten(fields)
    hits = keys.among(flat)
    if keys.numbers:
        hits = pc.or_(hits, keys.among(pc.utf8_ltrim(flat, "+")))
    rows = pc.unique(pc.list_parent_indices(fields).filter(hits))
    found = pc.is_in(pa.array(range(len(text)), rows.type), value_set=rows)
    for value in keys.texts.to_pylist():
        if not _FIELD.fullmatch(value):
            found = pc.or_(found, pc.fill_null(pc.match_substring(text, value), False))
    return found


def _at(snapshot: Snapshot, source: str, file: str, lines: set[int]) -> str:
    wanted = (("_source", [source]), ("_file", [file]), ("_line", lines))
    conditions = [sql.is_one_of(name, snapshot.field(name).type, values) for name, values in wanted]
    return f"({' AND '.join(conditions)})"
