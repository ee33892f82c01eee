"""Quarantined records without a readable key, which no key column attributes to a person.

Such a record could not be split into columns and is kept as text in ``_raw``, or its key is missing or not of the
key's type. A predicate on the key cannot find a person's records among these records. So all of them are counted, and
the records that hold one of the person's keys as a whole field ("mentions") are listed for a manual check. A mention is
not a match: the field may be a quantity, and the record may be another person's.
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
#: The columns that the load adds to a quarantined record: its origin and the reason of its rejection.
_META = ("_source", "_file", "_line", "_column", "_rule", _RAW)

# A field consists of letters, digits and _.+-, so a date, a decimal or a phone number is one field. All other
# characters, such as delimiters and quotes, separate fields.
_SEPARATORS = r"[^0-9A-Za-z_.+\-]+"
_FIELD = re.compile(r"[0-9A-Za-z_.+\-]+")
# A whole number as texts and JSON may have it: 17, +17, -17.0 and 17e0. A comparison reads the zeros before the digits.
# Other exponents, such as 17 as 1.7e1, are not read.
_WHOLE = r"^\+*(-?[0-9]+)(\.0*)?([eE][+\-]?0+)?$"
# The most characters of unreadable keys in a condition. Beyond that, a condition on runs of lines is shorter.
_MOST_LISTED = 20_000
# Two conditions of this length, for two key columns of a table, still fit into one condition.
_MOST_CHARACTERS = MAX_LENGTH // 2

#: Lines by source and file.
_Places = dict[tuple[str, str], set[int]]


@dataclass(frozen=True)
class Unattributed:
    """The unattributed records of one key column, in the latest version of a quarantine.

    Attributes:
        key: the key column.
        unreadable: texts in the key column that cannot be read as a key, in records that were rejected because of
            another column.
        unreadable_lines: the files and lines of these records, if the texts are too long for a condition.
        records: the number of unattributed records.
        mentioned: the records that hold one of the person's keys as a whole field.
    """

    key: str
    unreadable: ColumnKeys
    unreadable_lines: tuple[RecordLines, ...]
    records: int
    mentioned: tuple[RecordLines, ...]

    @property
    def condition(self) -> str:
        """SQL that is true for all unattributed records except ``unreadable``. The SQL contains no data of a record."""
        unread = f"`_column` = {sql.literal(self.key)} AND `_rule` IS NULL"
        return f"`{_RAW}` IS NOT NULL OR {quoted(self.key)} IS NULL OR ({unread})"

    @property
    def predicate(self) -> str:
        """SQL that is true for all unattributed records."""
        unreadable = [self.unreadable.sql()] if self.unreadable.values else []
        return " OR ".join([self.condition, *unreadable, *(part.sql() for part in self.unreadable_lines)])

    @property
    def mentions(self) -> int:
        """The number of records that mention the person."""
        return sum(part.count for part in self.mentioned)

    @property
    def mentions_predicate(self) -> str:
        """SQL that is true for exactly the records that mention the person, by source, file and line."""
        return " OR ".join(part.sql() for part in self.mentioned) or sql.NOTHING

    @property
    def places(self) -> tuple[str, ...]:
        """The origins of the records that mention the person: ``FILE line N``, sorted."""
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
        """The inverse of ``to_dict``."""
        return cls(
            body["key"],
            ColumnKeys.from_dict(body["unreadable"]),
            tuple(RecordLines.from_dict(part) for part in body["unreadable_lines"]),
            body["records"],
            tuple(RecordLines.from_dict(part) for part in body["mentioned"]),
        )


def find(snapshot: Snapshot, key: str, keys: KeyTexts, engine: Engine) -> Unattributed | None:
    """The records of a quarantine that ``key`` does not attribute to a person.

    None for a table that lacks one of the columns that a load adds to a quarantine, such as ``_raw``.

    Args:
        keys: the person's keys; a key that is not a single field is searched in the whole text of a record.

    Raises:
        InvalidPredicateError: the records are in too many runs of lines for one condition, or a record that is selected
            by its origin has no ``_source``, ``_file`` or ``_line``.
    """
    if any(name not in snapshot.schema for name in _META):
        return None
    unreadable_name = f"quarantined records without a readable {key}"
    mention_name = f"quarantined records that mention one of {len(keys.texts)} keys"
    texts, unreadable_lines = _ill_typed(snapshot, key, keys, engine, unreadable_name)
    column = snapshot.field(key)
    unattributed = Unattributed(key, ColumnKeys.of(column, texts), unreadable_lines, 0, ())
    condition = unattributed.predicate
    _check_length(snapshot, condition, unreadable_name)
    predicate = expressions.parse(condition, snapshot.schema, table=snapshot.store.root, label=sql.LABEL)
    names = ["_source", "_file", "_line", _RAW, column.name]
    reader: pa.RecordBatchReader = engine.read(snapshot, names, predicate)
    records = 0
    lines: _Places = defaultdict(set)
    for batch in reader:
        records += len(batch)
        text = pc.coalesce(batch.column(_RAW), batch.column(names[-1]))
        _note(lines, batch.filter(_mentions(text, keys)))
    unattributed = replace(unattributed, records=records, mentioned=_by_place(snapshot, lines, mention_name))
    _check_length(snapshot, unattributed.mentions_predicate, mention_name)
    return unattributed


def _ill_typed(
    snapshot: Snapshot, key: str, keys: KeyTexts, engine: Engine, name: str
) -> tuple[set[str], tuple[RecordLines, ...]]:
    """The unreadable texts of ``key`` in records that were rejected because of another column.

    Returns the texts or, if they are too long for a condition, the files and lines of the records.
    """
    field = snapshot.field(key)
    if keys.text_is_key or field.type != PrimitiveType("string"):
        return set(), ()
    condition = f"`{_RAW}` IS NULL AND NOT (`_column` <=> {sql.literal(key)} AND `_rule` IS NULL)"
    predicate = expressions.parse(condition, snapshot.schema, table=snapshot.store.root, label=sql.LABEL)
    reader: pa.RecordBatchReader = engine.read(snapshot, ["_source", "_file", "_line", field.name], predicate)
    unreadable_texts: set[str] = set()
    lines: _Places = defaultdict(set)
    for batch in reader:
        texts = pc.unique(pc.drop_null(batch.column(3)))
        unreadable = texts.filter(keys.unreadable(texts))
        unreadable_texts.update(unreadable.to_pylist())
        _note(lines, batch.filter(pc.is_in(batch.column(3), value_set=unreadable)))
    if sum(map(len, unreadable_texts)) > _MOST_LISTED:
        return set(), _by_place(snapshot, lines, name)
    return unreadable_texts, ()


def _mentions(text: pa.Array, keys: KeyTexts) -> pa.Array:
    fields = pc.split_pattern_regex(pc.fill_null(text, ""), _SEPARATORS)
    flat = pc.list_flatten(fields)
    plain = pc.utf8_rtrim(flat, ".+-")  # such as the full stop of a sentence
    if keys.numbers:
        plain = pc.replace_substring_regex(plain, _WHOLE, r"\1")
    hits = pc.or_(keys.among(flat), keys.among(plain))
    rows = pc.unique(pc.list_parent_indices(fields).filter(hits))
    is_mention = pc.is_in(pa.array(range(len(text)), rows.type), value_set=rows)
    for value in keys.texts.to_pylist():
        if not _FIELD.fullmatch(value):
            is_mention = pc.or_(is_mention, is_true(pc.match_substring(text, value)))
    return is_mention


def _note(lines: _Places, records: pa.RecordBatch) -> None:
    for source, file, line in zip(*(records.column(number).to_pylist() for number in range(3)), strict=True):
        lines[source, file].add(line)


def _by_place(snapshot: Snapshot, lines: _Places, name: str) -> tuple[RecordLines, ...]:
    if any(None in place or None in numbers for place, numbers in lines.items()):
        raise InvalidPredicateError(
            f"{name} have NULL as _source, _file or _line; expected values, by which a condition selects the records",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Nothing was changed. Set these columns of the records, then locate the person again",
        )
    return tuple(RecordLines(source, file, _runs(lines[source, file])) for source, file in sorted(lines))


def _runs(lines: Iterable[int]) -> tuple[tuple[int, int], ...]:
    numbers = np.unique(np.fromiter(lines, np.int64))
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return tuple((int(run[0]), int(run[-1])) for run in runs)


def _check_length(snapshot: Snapshot, condition: str, name: str) -> None:
    if len(condition) > _MOST_CHARACTERS:
        raise InvalidPredicateError(
            f"the condition on {name} has {len(condition)} characters; expected at most {_MOST_CHARACTERS}",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Nothing was changed. Delete settled records from the quarantine, then locate the person again",
        )
