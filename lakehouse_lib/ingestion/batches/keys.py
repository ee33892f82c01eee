"""The keys of a batch that its key rules refuse, because they are in the table or in several rows of the batch.

Keys are refused in rounds. Each round is recorded (put-if-absent) before its rows go to the quarantine, so a run after
a crash refuses the same keys. Round 0 refuses the keys that are in several rows, or in the version of the table that
the run has read. If another writer commits more of the keys before the batch is committed, the next round refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse_lib.arrow.streams import rows_of, stream_of
from lakehouse_lib.arrow.values import flags_of, int64s, literal
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.ingestion.change_events.stored_rows import key_predicate, positions, rows_with_keys
from lakehouse_lib.ingestion.gate import Translation, violations
from lakehouse_lib.ingestion.quarantine import RULES_COLUMN
from lakehouse_lib.ingestion.tasks.parse import rows_schema
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore

#: The keys that a round refuses, by key rule: the columns of the key, without duplicates.
Round = tuple[pa.Table, ...]

_ROWS = 1 << 16
_COUNT = "__count"
_RULE = "__rule"


@dataclass(frozen=True)
class BatchKeys:
    """The keys of the rows of a batch that break no other rule.

    Attributes:
        suite: the suite, with key rules.
        counts: a table for each key rule: the distinct keys without NULL, and the number of rows of each key.
    """

    suite: Translation
    counts: tuple[pa.Table, ...]

    @classmethod
    def of(
        cls, suite: Translation, schema: pa.Schema, store: ObjectStore, paths: Sequence[str], broken: Sequence[int]
    ) -> BatchKeys:
        """The keys of the rows that were set apart.

        Args:
            schema: the schema of the rows.
            paths: the files of these rows.
            broken: the positions of the broken row rules in the suite.
        """
        names = list(dict.fromkeys(name for rule in suite.key_rules for name in rule.columns))
        empty = rows_schema(schema).empty_table()
        parts = [[empty.select(rule.columns)] for rule in suite.key_rules]
        for path in paths:
            with store.open_input(path) as source:
                for batch in pq.ParquetFile(source).iter_batches(_ROWS, columns=[*names, RULES_COLUMN]):
                    breaks = violations(suite.row_rules, batch.column(RULES_COLUMN), broken)
                    passes = flags_of(pc.equal(pc.list_value_length(breaks), literal(0, pa.int32())))
                    rows = pa.Table.from_batches([batch.take(int64s(np.flatnonzero(passes)))])
                    for part, rule in zip(parts, suite.key_rules, strict=True):
                        part.append(rows.select(rule.columns).drop_null())
        return cls(suite, tuple(_counted(pa.concat_tables(part)) for part in parts))

    def refused(self, snapshot: Snapshot | None, rounds: Sequence[Round]) -> Round:
        """The keys to refuse because of a version of the table, without the keys that earlier rounds refuse.

        Args:
            snapshot: the version; None: the table does not exist yet.
        """
        return tuple(self._refused(place, snapshot, rounds) for place in range(len(self.counts)))

    def _refused(self, place: int, snapshot: Snapshot | None, rounds: Sequence[Round]) -> pa.Table:
        counts, names = self.counts[place], list(self.suite.key_rules[place].columns)
        keys = counts.select(names)
        is_refused = flags_of(pc.greater(counts[_COUNT], literal(1, pa.int64())))
        if snapshot is not None and len(keys) and all(name in snapshot.schema for name in names):
            stored = rows_with_keys(snapshot, keys, names)
            is_refused = is_refused | (positions(keys, stored.group_by(names).aggregate([]), names) >= 0)
        for earlier in rounds:
            is_refused = is_refused & (positions(keys, earlier[place], names) < 0)
        return keys.filter(pa.array(is_refused))

    def reads(self, snapshot: Snapshot | None) -> list[Predicate | None]:
        """The predicates of the table's rows on which the judgement depends, as of ``OptimisticTransaction.read``."""
        keys = [counts.select(rule.columns) for rule, counts in zip(self.suite.key_rules, self.counts, strict=True)]
        return [None if snapshot is None else key_predicate(snapshot, table) for table in keys if len(table)]

    def broken(self, rounds: Sequence[Round]) -> dict[str, int]:
        """The number of rows whose key is refused, by rule id."""
        numbers: dict[str, int] = {}
        for place, (rule, counts) in enumerate(zip(self.suite.key_rules, self.counts, strict=True)):
            names = list(rule.columns)
            keys = counts.select(names)
            is_refused = np.zeros(len(keys), bool)
            for refused in rounds:
                is_refused |= positions(keys, refused[place], names) >= 0
            count = pc.sum(counts[_COUNT].filter(pa.array(is_refused)), min_count=0).as_py()
            if count:
                numbers[rule.rule.id] = count
        return numbers


class RecordedRounds:
    """The rounds of a batch, as objects in the table's store.

    Args:
        prefix: the start of the paths of the objects.
        suite: the suite, with key rules.
        schema: the schema of the batch's rows.
    """

    def __init__(self, store: ObjectStore, prefix: str, suite: Translation, schema: pa.Schema) -> None:
        self._store = store
        self._prefix = prefix
        self._suite = suite
        names = dict.fromkeys(name for rule in suite.key_rules for name in rule.columns)
        fields = [rows_schema(schema).field(name) for name in names]
        self._schema = pa.schema([pa.field(_RULE, pa.int32()), *fields])

    def read(self) -> list[Round]:
        """The rounds that are recorded, in their order."""
        folder, _, start = self._prefix.rpartition("/")
        paths = [meta.path for meta in self._store.list_from(folder, start)]
        return [self._round(self._store.read(path)) for path in sorted(paths) if path.startswith(self._prefix)]

    def put(self, number: int, keys: Round) -> bool:
        """Record a round; False: the round may already be recorded, perhaps with other keys."""
        tables = []
        for place, table in enumerate(keys):
            rule = pa.repeat(literal(place, pa.int32()), len(table))
            by_name = {name: table[name] for name in table.column_names} | {_RULE: rule}
            columns = [by_name.get(field.name, pa.nulls(len(table), field.type)) for field in self._schema]
            tables.append(pa.Table.from_arrays(columns, schema=self._schema))
        data = stream_of(pa.concat_tables(tables)).to_pybytes()
        return self._store.put_if_absent(f"{self._prefix}{number:06d}", data)

    def _round(self, data: bytes) -> Round:
        table = rows_of(pa.py_buffer(data))
        return tuple(
            table.filter(pc.equal(table[_RULE], literal(place, pa.int32()))).select(rule.columns)
            for place, rule in enumerate(self._suite.key_rules)
        )


def _counted(keys: pa.Table) -> pa.Table:
    """The distinct keys, and the number of rows of each."""
    names = keys.column_names
    return keys.group_by(names).aggregate([([], "count_all")]).rename_columns([*names, _COUNT])
