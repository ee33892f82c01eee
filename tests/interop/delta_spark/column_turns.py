"""delta-spark and this library write to one table in turns: tables with column mapping, and with variants.

Part of `make interop`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from tests.interop.delta_spark.peer import Peer


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_in_turns(tmp_path: Path, peer: Peer, engine: Engine, mode: str) -> None:
    """Each library adds columns and rows to the other's table, and both read all versions."""
    for name in ("theirs", "ours"):
        path, table = tmp_path / name, f"delta.`{tmp_path / name}`"
        properties = {"delta.columnMapping.mode": mode}
        if name == "theirs":
            peer.sql(
                f"CREATE TABLE {table} (id BIGINT, `a b` STRUCT<`x y`: BIGINT, z: STRING>, part BIGINT) USING delta "
                f"PARTITIONED BY (part) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
            )
        else:
            kind = pa.struct([("x y", pa.int64()), ("z", pa.string())])
            schema = pa.schema([("id", pa.int64()), ("a b", kind), ("part", pa.int64())])
            DeltaTable.create(path, schema, partition_by=["part"], configuration=properties)
        for first in (0, 10):
            numbers = list(range(first, first + 10))
            batch = pa.table(
                {
                    "id": numbers,
                    "a b": [{"x y": number, "z": str(number)} for number in numbers],
                    "part": [number % 2 for number in numbers],
                    "new, column": numbers,
                }
            )
            write_deltalake(path, batch, mode="append", schema_mode="merge", engine=engine)
            peer.sql(f"INSERT INTO {table} SELECT {first} + 100, struct({first} + 100, 'they'), 1, {first} + 100")
        peer.sql(f"ALTER TABLE {table} ADD COLUMNS (later STRING)")
        peer.sql(f"ALTER TABLE {table} RENAME COLUMN `a b` TO s")
        later = pa.table({"id": [200], "s": [{"x y": 200, "z": "we"}], "part": [0], "later": ["text"]})
        write_deltalake(path, later, mode="append", engine=engine)
        DeltaTable(path, engine=engine).delete("id IN (1, 2)")
        DeltaTable(path, engine=engine).optimize.compact()
        peer.sql(f"DELETE FROM {table} WHERE s.`x y` = 3")
        peer.sql(f"OPTIMIZE {table}")
        for version in range(DeltaTable(path).version() + 1):
            our_rows = DeltaTable(path, version=version).to_pyarrow_table().sort_by("id").to_pylist()
            spark_rows = peer.sql(f"SELECT to_json(struct(*)) AS row FROM {table} VERSION AS OF {version} ORDER BY id")
            # Spark leaves nulls out of JSON.
            present = [{name: value for name, value in row.items() if value is not None} for row in our_rows]
            assert present == [json.loads(row["row"]) for row in spark_rows], version
        assert [row["id"] for row in our_rows] == [0, *range(4, 20), 100, 110, 200]
        assert {row["id"] for row in our_rows if row["new, column"] == row["id"]} == {0, *range(4, 20), 100, 110}
        assert [row["later"] for row in our_rows if row["later"] is not None] == ["text"]


@pytest.mark.timeout(900)
def test_variants_in_turns(tmp_path: Path, peer: Peer, engine: Engine) -> None:
    path, table = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    peer.sql(f"CREATE TABLE {table} (id LONG, v VARIANT, l ARRAY<VARIANT>) USING delta")
    parsed = "parse_json('{\"a\": ' || id || '}')"
    peer.sql(f"INSERT INTO {table} SELECT id, {parsed}, array({parsed}, NULL) FROM range(4)")
    values = DeltaTable(path).to_pyarrow_table()
    own = DeltaTable(path, engine=engine)
    write_deltalake(own, values.set_column(0, "id", pa.array(range(10, 14), pa.int64())), mode="append")
    own.update({"id": "id + 100"}, predicate="id < 2")
    own.merge(values, "target.id = source.id").when_matched_update({"l": "NULL"}).execute()
    peer.sql(f"UPDATE {table} SET v = parse_json('7') WHERE id = 13")
    own.optimize.compact()
    shown = peer.sql(f"SELECT id, to_json(v) AS v, to_json(l[0]) AS l FROM {table} ORDER BY id")
    present = {n: f'{{"a":{n % 10}}}' for n in (2, 3, 10, 11, 12)}
    assert {row["id"]: row["v"] for row in shown} == present | {13: "7", 100: '{"a":0}', 101: '{"a":1}'}
    assert [row["id"] for row in shown if row.get("l") is None] == [2, 3]
