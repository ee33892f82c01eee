"""Quarantined records of which no key column says whose they are.

A record that could not be taken apart into columns is kept as text in ``_raw``; another has no key, or one not of
the key's type, whether it was refused for that or for another column. A predicate on the key cannot find a
person there, so these records are counted, and those that hold one of the person's keys as a whole field are named for
someone to look at. They are not matches by themselves: the field may as well be a quantity, and the record another
person's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import expressions
from lakehouse_lib.arrow.values import is_true
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.parsing.sql import MAX_LENGTH
from lakehouse_lib.privacy import sql
from lakehouse_lib.privacy.key_texts import KeyTexts
from lakehouse_lib.privacy.keys import ColumnKeys, RecordLines
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.schema.quoting import quoted
from lakehouse_lib.snapshot import Snapshot

_RAW = "_raw"
#: What the load says of a quarantined record, and where it came from.
_META = ("_source", "_file", "_line", "_column", "_rule", _RAW)

# Whatever a source delimits and quotes fields with separates; a date, a decimal and a phone number stay one field.
_SEPARATORS = r"[^0-9A-Za-z_.+\-]+"
_FIELD = re.compile(r"[0-9A-Za-z_.+\-]+")
# Characters of keys that a condition lists. Where a whole file has its columns elsewhere, its lines say it shorter.
_MOST_LISTED = 20_000
# Conditions of two keys of a table are made one.
_MOST_CHARACTERS = MAX_LENGTH // 2

#: Lines by source and file.
_Places = dict[tuple[str, str], set[int]]


@dataclass(frozen=True)
class Unattributed:
    """Such records in the live version of one quarantine table.

    Attributes:
        key: the column that attributes none of them.
        unreadable: texts of that column in which no key can be read, of records that name another column as their
            first fault.
        unreadable_lines: the same records by their places, where the texts are too long for a condition.
        records: how many records there are in all.
        mentioned: those that hold one of the keys as a whole field.
    """

    key: str
    unreadable: ColumnKeys
    unreadable_lines: tuple[RecordLines, ...]
    records: int
    mentioned: tuple[RecordLines, ...]

    @property
    def condition(self) -> str:
        """SQL that is true of all of them but the unreadable ones, and holds no value of any record."""
        unread = f"`_column` = {sql.literal(self.key)} AND `_rule` IS NULL"
        return f"`{_RAW}` IS NOT NULL OR {quoted(self.key)} IS NULL OR ({unread})"

    @property
    def predicate(self) -> str:
        """SQL that is true of all of them."""
        unreadable = [self.unreadable.sql()] if self.unreadable.values else []
        return " OR ".join([self.condition, *unreadable, *(part.sql() for part in self.unreadable_lines)])

    @property
    def mentions(self) -> int:
        """How many of them hold one of the keys as a whole field."""
        return sum(part.count for part in self.mentioned)

    @property
    def mentions_predicate(self) -> str:
        """SQL that is true of exactly those, by source, file and line."""
        return " OR ".join(part.sql() for part in self.mentioned) or sql.NOTHING

    @property
    def places(self) -> tuple[str, ...]:
        """Where those came from: ``FILE line N``, sorted."""
        return tuple(
            f"{part.file} line {line}"
            for part in self.mentioned
            for first, last in part.runs
            for line in range(first, last + 1)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "key": self.key,
            "unreadable": self.unreadable.to_dict(),
            "unreadable_lines": [part.to_dict() for part in self.unreadable_lines],
            "records": self.records,
            "mentioned": [part.to_dict() for part in self.mentioned],
        }

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Unattributed:
        """What ``to_dict`` made."""
        return cls(
            body["key"],
            ColumnKeys.from_dict(body["unreadable"]),
            tuple(RecordLines.from_dict(part) for part in body["unreadable_lines"]),
            body["records"],
            tuple(RecordLines.from_dict(part) for part in body["mentioned"]),
        )


def find(snapshot: Snapshot, key: str, keys: KeyTexts, engine: Engine) -> Unattributed | None:
    """The records of a quarantine that ``key`` does not attribute to a person; None for a table without ``_raw``.

    Args:
        keys: that are looked for; one that is not a single field is looked for anywhere in the record.

    Raises:
        InvalidPredicateError: they are too many, and too far from each other, for a condition to name them.
    """
    if any(name not in snapshot.schema for name in _META):
        return None
    texts, unreadable_lines = _ill_typed(snapshot, key, keys, engine)
    column = snapshot.field(key)
    unattributed = Unattributed(key, ColumnKeys.of(column, texts), unreadable_lines, 0, ())
    condition = unattributed.predicate
    _check_length(snapshot, condition, f"those that have no readable {key}")
    predicate = expressions.parse(condition, snapshot.schema, table=snapshot.store.root, label=sql.LABEL)
    names = ["_source", "_file", "_line", _RAW, column.name]
    reader: pa.RecordBatchReader = engine.read(snapshot, names, predicate)
    records = 0
    lines: _Places = defaultdict(set)
    for batch in reader:
        records += len(batch)
        text = pc.coalesce(batch.column(_RAW), batch.column(names[-1]))
        _note(lines, batch.filter(_mentions(text, keys)))
    unattributed = replace(unattributed, records=records, mentioned=_by_place(lines))
    _check_length(snapshot, unattributed.mentions_predicate, f"those that mention one of {len(keys.texts)} keys")
    return unattributed


def _ill_typed(
    snapshot: Snapshot, key: str, keys: KeyTexts, engine: Engine
) -> tuple[set[str], tuple[RecordLines, ...]]:
    """Records in whose ``key`` no key can be read, and that name another column as the first that is faulty.

    Returns their texts or, where these are too long for a condition, their places.
    """
    field = snapshot.field(key)
    if keys.text_is_key or field.type != PrimitiveType("string"):
        return set(), ()
    other = f"`{_RAW}` IS NULL AND NOT (`_column` <=> {sql.literal(key)} AND `_rule` IS NULL)"
    predicate = expressions.parse(other, snapshot.schema, table=snapshot.store.root, label=sql.LABEL)
    reader: pa.RecordBatchReader = engine.read(snapshot, ["_source", "_file", "_line", field.name], predicate)
    unreadable_texts: set[str] = set()
    lines: _Places = defaultdict(set)
    for batch in reader:
        texts = pc.unique(pc.drop_null(batch.column(3)))
        unreadable = texts.filter(keys.unreadable(texts))
        unreadable_texts.update(unreadable.to_pylist())
        _note(lines, batch.filter(pc.is_in(batch.column(3), value_set=unreadable)))
    if sum(map(len, unreadable_texts)) > _MOST_LISTED:
        return set(), _by_place(lines)
    return unreadable_texts, ()


def _mentions(text: pa.Array, keys: KeyTexts) -> pa.Array:
    fields = pc.split_pattern_regex(pc.fill_null(text, ""), _SEPARATORS)
    flat = pc.list_flatten(fields)
    hits = keys.among(flat)
    if keys.numbers:
        hits = pc.or_(hits, keys.among(pc.utf8_ltrim(flat, "+")))
    rows = pc.unique(pc.list_parent_indices(fields).filter(hits))
    is_mention = pc.is_in(pa.array(range(len(text)), rows.type), value_set=rows)
    for value in keys.texts.to_pylist():
        if not _FIELD.fullmatch(value):
            is_mention = pc.or_(is_mention, is_true(pc.match_substring(text, value)))
    return is_mention


def _note(lines: _Places, records: pa.RecordBatch) -> None:
    for source, file, line in zip(*(records.column(number).to_pylist() for number in range(3)), strict=True):
        lines[source, file].add(line)


def _by_place(lines: _Places) -> tuple[RecordLines, ...]:
    return tuple(RecordLines(source, file, _runs(lines[source, file])) for source, file in sorted(lines))


def _runs(lines: Iterable[int]) -> tuple[tuple[int, int], ...]:
    numbers = np.unique(np.fromiter(lines, np.int64))
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return tuple((int(run[0]), int(run[-1])) for run in runs)


def _check_length(snapshot: Snapshot, condition: str, which: str) -> None:
    if len(condition) > _MOST_CHARACTERS:
        raise InvalidPredicateError(
            f"records of the quarantine that no key attributes are too many for a condition: {which} take "
            f"{len(condition)} characters to name, and {_MOST_CHARACTERS} are the most",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Nothing was changed. Delete what is settled of the quarantine, then look for the person again",
        )
