"""Random sequences of verbs, which this library and delta-spark run on two tables: part of `make interop`.

Before each verb, a random choice says which library writes which table. So both write both tables.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.differential.programs import SequenceTable
from tests.differential.sequences import run_sequence
from tests.differential.verbs import Verb
from tests.interop.delta_spark.peer import Peer

#: The words of MERGE for each method of a merge's builder, in the order that SQL requires.
MERGE_WORDS = {
    "when_matched_update_all": ("MATCHED", "UPDATE SET *"),
    "when_matched_update": ("MATCHED", "UPDATE SET {assignments}"),
    "when_matched_delete": ("MATCHED", "DELETE"),
    "when_not_matched_insert_all": ("NOT MATCHED", "INSERT *"),
    "when_not_matched_insert": ("NOT MATCHED", "INSERT ({names}) VALUES ({values})"),
    "when_not_matched_by_source_update": ("NOT MATCHED BY SOURCE", "UPDATE SET {assignments}"),
    "when_not_matched_by_source_delete": ("NOT MATCHED BY SOURCE", "DELETE"),
}
MATCHES = ("MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(6))
def test_tables_written_in_turns_have_equal_rows(tmp_path: Path, peer: Peer, seed: int) -> None:
    outcome = run_sequence(seed, tmp_path, other=DeltaSpark(peer, tmp_path / "rows"))
    assert outcome.difference == ""
    assert outcome.verbs.total() > outcome.refused.total(), outcome.refused


class DeltaSpark:
    """delta-spark as a ``Program`` of sequences; ``folder`` is for the rows that it writes."""

    name = "delta-spark"

    def __init__(self, peer: Peer, folder: Path) -> None:
        self._peer, self._folder = peer, folder
        folder.mkdir()
        peer.sql("SET spark.databricks.delta.retentionDurationCheck.enabled=false")

    def create(self, root: Path, rows: pa.Table, partition_by: list[str] | None, properties: dict[str, str]) -> None:
        partitions = f"PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        options = f"TBLPROPERTIES ({pairs})" if pairs else ""
        self._peer.sql(f"CREATE TABLE delta.`{root}` USING delta {partitions} {options} AS {self._query(rows)}")

    def run(self, verb: Verb, table: SequenceTable) -> None:
        for statement in self._statements(verb, f"delta.`{table.root}`", table.states):
            self._peer.sql(statement)

    def read(self, table: SequenceTable) -> pa.Table:
        return self._peer.rows(f"SELECT * FROM delta.`{table.root}`")

    def changes(self, table: SequenceTable, start: int) -> pa.Table:
        return self._peer.changes(table.root, start)

    def _statements(self, verb: Verb, table: str, states: list[int]) -> list[str]:
        where = f" WHERE {verb.condition}" if verb.condition else ""
        if verb.name == "append":
            return [f"INSERT INTO {table} BY NAME {self._query(verb.data)}"]
        if verb.name == "wider append":
            column = verb.data.column_names[-1]
            return [
                f"ALTER TABLE {table} ADD COLUMNS ({column} BIGINT)",
                f"INSERT INTO {table} BY NAME {self._query(verb.data)}",
            ]
        if verb.name == "overwrite":
            return [f"INSERT OVERWRITE {table} BY NAME {self._query(verb.data)}"]
        if verb.name == "replace":
            return [f"INSERT INTO {table} REPLACE WHERE {verb.condition} {self._query(verb.data)}"]
        if verb.name == "delete":
            return [f"DELETE FROM {table}{where}"]
        if verb.name == "update":
            return [f"UPDATE {table} SET {assignments(verb.values)}{where}"]
        if verb.name == "merge":
            clauses = sorted(verb.clauses, key=lambda clause: MATCHES.index(MERGE_WORDS[clause[0]][0]))
            evolution = "WITH SCHEMA EVOLUTION " if verb.merge_schema else ""
            return [
                f"MERGE {evolution}INTO {table} target USING ({self._query(verb.data)}) source ON {verb.condition} "
                + " ".join(merge_clause(method, verb.data.column_names, **arguments) for method, arguments in clauses)
            ]
        if verb.name == "restore":
            return [] if verb.state is None else [f"RESTORE TABLE {table} TO VERSION AS OF {states[verb.state]}"]
        return {
            "compact": [f"OPTIMIZE {table}"],
            "z_order": [f"OPTIMIZE {table} ZORDER BY (id)"],
            "checkpoint": [],  # delta-spark has no statement for it; it writes one every ten commits
            "vacuum": [f"VACUUM {table} RETAIN 0 HOURS"],
        }[verb.name]

    def _query(self, rows: pa.Table) -> str:
        """A query of these rows, which are put into a file."""
        file = self._folder / f"{uuid.uuid4()}.parquet"
        pq.write_table(rows, file)
        return f"SELECT * FROM parquet.`{file}`"


def merge_clause(
    method: str,
    columns: Sequence[str],
    updates: dict[str, str] | None = None,
    predicate: str | None = None,
    except_cols: Sequence[str] = (),
) -> str:
    """The SQL of a clause. Spark has no word for ``except_cols``, so the clause then names the other columns."""
    values = updates or {}
    if except_cols:
        method = method.removesuffix("_all")
        values = {name: f"source.{name}" for name in columns if name not in except_cols}
    match, action = MERGE_WORDS[method]
    condition = f" AND {predicate}" if predicate else ""
    words = action.format(assignments=assignments(values), names=", ".join(values), values=", ".join(values.values()))
    return f"WHEN {match}{condition} THEN {words}"


def assignments(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
