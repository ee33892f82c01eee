"""The tables of the matrix that a verb has written; ``feature_tables`` has those with features."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib import AddAction, Field, RemoveAction, convert_to_deltalake, create_table_with_add_actions
from tests.interop.matrix.our_table import SCHEMA, OurTable, Writer, line, part, rows

#: The functions that write these tables, by the titles of their lines.
VERBS: dict[str, Writer] = {}

FIRST, SECOND = range(10), range(10, 16)
ON_VECTORS = {"delta.enableDeletionVectors": "true"}


@line(VERBS, "update")
def update(table: OurTable) -> None:
    """Of data columns, of a partition column, and of all rows."""
    table.write(rows(FIRST), rows(FIRST), partition_by=["part"])
    table.open().update({"amount": "amount * 2"}, predicate="id >= 5")
    changed: dict[int, float | None] = {key: float(key) for key in range(5, 10)}
    table.has(rows(FIRST, changed))
    table.open().update({"part": "'x'"}, predicate="part = 'a'")
    moved = rows(FIRST, changed)
    letters = pa.array(["x" if part(key) == "a" else part(key) for key in FIRST])
    moved = moved.set_column(1, "part", letters)
    table.has(moved)
    table.open().update({"amount": "NULL"})
    table.has(moved.set_column(2, "amount", pa.nulls(10, pa.float64())))


@line(VERBS, "merge")
def merge(table: OurTable) -> None:
    """Every kind of clause, and a merge that adds a column."""
    table.write(rows(FIRST), rows(FIRST))
    source = rows([1, 2, 3, 20, 21], {1: -1.0, 2: -2.0})
    merger = table.open().merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_delete("s.id = 3").when_matched_update({"amount": "s.amount"})
    merger.when_not_matched_insert_all("s.id = 20")
    merger.when_not_matched_by_source_delete("t.id = 8").when_not_matched_by_source_update(
        {"amount": "0.0"}, "t.id = 9"
    )
    merger.execute()
    ids, changed = [0, 1, 2, 4, 5, 6, 7, 9, 20], {1: -1.0, 2: -2.0, 9: 0.0}
    table.has(rows(ids, changed))
    wide = rows([0, 30], more=pa.array([5, 6], pa.int64()))
    merger = table.open().merge(wide, "t.id = s.id", source_alias="s", target_alias="t", merge_schema=True)
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    more = pa.array([5, *[None] * 8, 6], pa.int64())
    table.has(rows([*ids, 30], changed, more=more))


@line(VERBS, "merge with deletion vectors")
def merge_with_vectors(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST), configuration=ON_VECTORS)
    merger = table.open().merge(rows([1, 3, 20]), "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update({"amount": "-t.amount"}, "s.id = 1").when_matched_delete()
    merger.when_not_matched_insert({"id": "s.id", "part": "s.part"}).execute()
    table.has(rows([0, 1, 2, *range(4, 10), 20], {1: -0.5, 20: None}))


@line(VERBS, "overwrite and overwrite of the schema")
def overwrite(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST), partition_by=["part"])
    table.write(rows(SECOND), rows(SECOND), mode="overwrite")
    other = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["x", None]})
    table.write(other, other, mode="overwrite", schema_mode="overwrite", partition_by=["name"])
    table.write(rows([7]).select(["id"]), pa.table({"id": [1, 2, 7], "name": ["x", None, None]}), mode="append")


@line(VERBS, "overwrite by predicate")
def overwrite_by_predicate(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST), partition_by=["part"])
    table.write(rows([3]), rows([1, 2, 3, 4, 5, 7, 8]), mode="overwrite", predicate="part = 'a'")
    table.write(rows([20]), rows([1, 2, 3, 4, 20]), mode="overwrite", predicate="id >= 5")


@line(VERBS, "dynamic partition overwrite")
def dynamic_overwrite(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST), partition_by=["part"])
    left = [key for key in FIRST if part(key) == "b c"]
    table.write(rows([20, 21]), rows([*left, 20, 21]), mode="overwrite", partition_overwrite_mode="dynamic")


@line(VERBS, "restore")
def restore(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST))
    table.open().delete("id < 3")
    table.has(rows(range(3, 10)))
    table.open().delete("id = 5")
    table.has(rows([3, 4, 6, 7, 8, 9]))
    table.open().restore(1)
    table.has(rows(range(3, 10)))
    table.open().restore(0)
    table.has(rows(FIRST))
    table.open().delete("id = 9")
    table.has(rows(range(9)))


@line(VERBS, "deep clone")
def deep_clone(table: OurTable) -> None:
    source = _cloned(table, is_shallow=False)
    assert source.open().version() == 1
    table.open().delete("id = 0")
    table.has(rows([*range(1, 3), *range(4, 10)]))


@line(VERBS, "shallow clone")
def shallow_clone(table: OurTable) -> None:
    source = _cloned(table, is_shallow=True)
    table.storage_options = {"allowed_roots": str(source.root)}
    table.open().delete("id = 0")
    table.has(rows([*range(1, 3), *range(4, 10)]))
    table.write(rows([20]), rows([*range(1, 3), *range(4, 10), 20]), mode="append")


def _cloned(table: OurTable, *, is_shallow: bool) -> OurTable:
    """Clone a table with rows 0 to 9 except 3; returns the source."""
    source = OurTable(table.root.with_name(table.root.name + " source"), table.engine)
    source.write(rows(FIRST), rows(FIRST), partition_by=["part"])
    source.open().delete("id = 3")
    source.open().clone(table.root, is_shallow=is_shallow)
    if is_shallow:
        table.storage_options = {"allowed_roots": str(source.root)}
    table.has(rows([*range(3), *range(4, 10)]))
    return source


@line(VERBS, "convert from Parquet")
def convert(table: OurTable) -> None:
    for key in (0, 1, 2):
        folder = f"part={part(key) or '__HIVE_DEFAULT_PARTITION__'}".replace(" ", "%20")
        ids = list(range(key, 10, 3))
        _put_parquet(table.root / folder / f"rows {key}%.parquet", rows(ids).drop_columns(["part"]))
    convert_to_deltalake(table.root, partition_by=pa.schema([("part", pa.string())]), partition_strategy="hive")
    order = ["id", "amount", "part"]
    table.has(rows(FIRST).select(order))
    table.open().delete("id = 4")
    table.has(rows([*range(4), *range(5, 10)]).select(order))
    table.write(rows(SECOND), rows([*range(4), *range(5, 16)]).select(order), mode="append")


@line(VERBS, "create_table_with_add_actions")
def add_actions(table: OurTable) -> None:
    actions = []
    for key in (0, 1, 2):
        ids = list(range(key, 10, 3))
        file = table.root / f"{key} %.parquet"
        _put_parquet(file, rows(ids).drop_columns(["part"]))
        stats = {"numRecords": len(ids), "minValues": {"id": key}, "maxValues": {"id": ids[-1]}, "nullCount": {"id": 0}}
        values = {"part": part(key)}
        actions.append(AddAction(file.name, file.stat().st_size, values, 1_767_225_600_000, True, json.dumps(stats)))
    create_table_with_add_actions(table.root, SCHEMA, actions, partition_by="part")
    table.has(rows(FIRST))
    table.open().update({"amount": "0.0"}, predicate="id = 4")
    table.has(rows(FIRST, {4: 0.0}))


@line(VERBS, "create_write_transaction")
def write_transaction(table: OurTable) -> None:
    """Files are added, one is removed, and those of a partition are replaced."""
    table.write(rows(FIRST), rows(FIRST), partition_by=["part"])
    table.open().create_write_transaction([_added(table, "b c", [10, 13])], "append", SCHEMA, ["part"])
    table.has(rows([*FIRST, 10, 13]))
    removed = [RemoveAction("part=b c.parquet", True, 1_767_225_600_000)]
    table.open().create_write_transaction(removed, "append", SCHEMA)
    table.has(rows(FIRST))
    left = [key for key in FIRST if part(key) != "a"]
    added = [_added(table, "a", [30, 33])]
    table.open().create_write_transaction(added, "overwrite", SCHEMA, "part", [("part", "=", "a")])
    table.has(rows([*left, 30, 33]))
    table.open().delete("id = 30")
    table.has(rows([*left, 33]))


def _added(table: OurTable, value: str, ids: list[int]) -> AddAction:
    """A file in the folder of the table, with the rows of these ids, which have this partition value."""
    file = table.root / f"part={value}.parquet"
    _put_parquet(file, rows(ids).drop_columns(["part"]))
    stats = {"numRecords": len(ids), "minValues": {"id": ids[0]}, "maxValues": {"id": ids[-1]}, "nullCount": {"id": 0}}
    return AddAction(file.name, file.stat().st_size, {"part": value}, 1_767_225_600_000, True, json.dumps(stats))


@line(VERBS, "optimize.statistics")
def statistics(table: OurTable) -> None:
    file = table.root / "rows.parquet"
    _put_parquet(file, rows(FIRST))
    create_table_with_add_actions(
        table.root, SCHEMA, [AddAction(file.name, file.stat().st_size, {}, 1_767_225_600_000, True, "")]
    )
    table.has(rows(FIRST))
    table.write(rows(SECOND), rows(range(16)), mode="append")
    assert table.open().optimize.statistics()["numUpdatedFiles"] == 1
    table.has(rows(range(16)))
    table.open().delete("id = 12")
    table.has(rows([*range(12), *range(13, 16)]))


def _put_parquet(file: Path, data: pa.Table) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, file)


@line(VERBS, "symlink manifests")
def symlink_manifests(table: OurTable) -> None:
    on = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    table.write(rows(FIRST), rows(FIRST), partition_by=["part"], configuration=on)
    table.write(rows(SECOND), rows(range(16)), mode="append")
    table.open().delete("id IN (1, 2)")
    table.has(rows([0, *range(3, 16)]))
    table.open().generate()


@line(VERBS, "append with new columns")
def wider_append(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST))
    kind = pa.struct([("a", pa.int64())])
    more = rows([10], more=pa.array([{"a": 1}], kind))
    old = rows(FIRST, more=pa.nulls(10, kind))
    table.write(more, pa.concat_tables([old, more]), mode="append", schema_mode="merge")
    wider = pa.struct([("a", pa.int64()), ("b", pa.string())])
    most = rows([11], more=pa.array([{"a": 2, "b": "x"}], wider))
    values = [None] * 10 + [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    expected = rows(range(12), more=pa.array(values, wider))
    table.write(most, expected, mode="append", schema_mode="merge")


@line(VERBS, "alter: columns, nullability, metadata")
def alter_columns(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST))
    table.open().alter.add_columns([Field("note", "string"), Field("rate", "decimal(9,2)")])
    wide = rows(FIRST, note=pa.nulls(10, pa.string()), rate=pa.nulls(10, pa.decimal128(9, 2)))
    table.has(wide)
    alter = table.open().alter
    alter.set_column_not_null("amount")
    table.has(wide)
    alter.set_column_metadata("note", {"comment": "ä"})
    table.has(wide)
    new = rows([20], note=pa.array(["x"]), rate=pa.array([1], pa.decimal128(9, 2)))
    table.write(new, pa.concat_tables([wide, new]), mode="append")
    table.open().alter.drop_column_not_null("amount")
    table.has(pa.concat_tables([wide, new]))


@line(VERBS, "alter: properties, name, description")
def alter_properties(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST))
    alter = table.open().alter
    alter.set_table_properties({**ON_VECTORS, "delta.checkpointInterval": "3"})
    table.has(rows(FIRST))
    alter.set_table_properties({"owner of it": "a\nb"}, raise_if_not_exists=False)
    table.has(rows(FIRST))
    alter.set_table_name("ä 'b'")
    table.has(rows(FIRST))
    alter.set_table_description("")
    table.has(rows(FIRST))
    table.open().delete("id = 1")
    table.has(rows([0, *range(2, 10)]))
    table.open().alter.unset_table_properties(["delta.enableDeletionVectors"])
    table.has(rows([0, *range(2, 10)]))
    table.write(rows([1]), rows(FIRST), mode="append")


@line(VERBS, "z_order, purge, compact, checkpoint, compact_logs")
def rearrangements(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST), configuration=ON_VECTORS, partition_by=["part"])
    table.write(rows(SECOND), rows(range(16)), mode="append")
    table.open().optimize.z_order(["id", "amount"])
    table.has(rows(range(16)))
    table.open().create_checkpoint()
    table.open().delete("id = 1")
    table.has(rows([0, *range(2, 16)]))
    table.open().optimize.purge()
    table.has(rows([0, *range(2, 16)]))
    table.open().compact_logs(1, 3)
    table.write(rows([1]), rows(range(16)), mode="append")
    table.open().optimize.compact()
    table.has(rows(range(16)))
