"""delta-spark reads every version of our tables and goes on writing to them: part of `make interop`.

delta-rs and DuckDB read them, too. The outcomes must be those of the record, from which docs/interop.md is generated.
`make interop RECORD=1` replaces the record.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import write_deltalake
from tests.interop.delta_spark.expected import Written, difference, rows_of
from tests.interop.delta_spark.peer import Peer, SparkRefusal
from tests.interop.matrix.lines import LINES
from tests.interop.matrix.our_table import OurTable
from tests.interop.matrix.outcomes import (
    WRITES,
    features_of,
    other_readers,
    reading,
    reading_changes,
    record,
    recorded,
    shortened,
)
from tests.interop.matrix.spark_writes import spark_write
from tests.peers import plain


@pytest.mark.timeout(900)
@pytest.mark.parametrize("title", list(LINES))
def test_other_readers_read_the_table_and_delta_spark_writes_to_it(
    title: str, tmp_path: Path, peer: Peer, pytestconfig: pytest.Config
) -> None:
    table = OurTable(tmp_path / "tables" / "our table")
    LINES[title](table)
    written = peer.record(tmp_path, table.root.name)
    outcome = {
        "versions": str(len(table.versions)),
        **features_of(table),
        "delta-spark": reading(table, lambda version: rows_of_version(written, version))
        or reading_changes(table, lambda: peer.changes(table.root, 0)),
        **other_readers(table),
        **going_on(table, peer),
    }
    if pytestconfig.getoption("--record"):
        record(title, outcome)
    assert outcome == recorded()[title]


def rows_of_version(written: Written, number: int) -> pa.Table:
    version = written.versions[number]
    if version.rows is None:
        raise LookupError(version.refused)
    return rows_of(version.rows)


def going_on(table: OurTable, peer: Peer) -> dict[str, str]:
    """Let delta-spark write, check the rows after each statement, then write here and let delta-spark read."""
    last = table.versions[max(table.versions)]
    rows, name = last.to_pylist(), f"delta.`{table.root}`"
    outcome = {}
    for verb in WRITES:
        statement, later = spark_write(verb, name, rows)
        try:
            peer.sql(statement)
            outcome[verb], rows = "", later
        except SparkRefusal as refusal:
            outcome[verb] = shortened(refusal.reason, table)
        expected = pa.Table.from_pylist(rows, schema=last.schema)
        assert difference(table.open().to_pyarrow_table(), plain(expected)) == "", (verb, outcome[verb])
    new = pa.Table.from_pylist([{**rows[0], "id": 9000}], schema=last.schema)
    write_deltalake(table.root, new, mode="append", storage_options=table.storage_options)
    (total,) = peer.sql(f"SELECT count(*) AS rows, sum(id) AS ids FROM {name}")
    ids = [row["id"] for row in rows if row["id"] is not None]
    assert total == {"rows": len(rows) + 1, "ids": sum(ids) + 9000}
    return outcome
