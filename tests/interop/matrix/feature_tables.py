"""The tables of the matrix that use a feature: each is written in several commits."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakehouse_lib import DeltaTable, Field, Schema, TableFeatures, write_deltalake
from lakehouse_lib.protocol.actions import DomainMetadata
from lakehouse_lib.transaction import Committed, OptimisticTransaction
from tests.interop.matrix.our_table import OurTable, Writer, line, rows

#: The functions that write these tables, by the titles of their lines.
FEATURES: dict[str, Writer] = {}

ON_FEED = {"delta.enableChangeDataFeed": "true"}
FIRST, SECOND = range(10), range(10, 16)


@line(FEATURES, "no feature")
def without_features(table: OurTable) -> None:
    lifecycle(table, {})


@line(FEATURES, "no feature, partitioned")
def partitioned(table: OurTable) -> None:
    lifecycle(table, {}, partition_by=["part"])


def lifecycle(table: OurTable, configuration: dict[str, str], **options: Any) -> None:
    """Create, append, delete, update, merge and compact."""
    table.write(rows(FIRST), rows(FIRST), configuration=configuration, **options)
    table.write(rows(SECOND), rows(range(16)), mode="append")
    table.open().delete("id IN (2, 11)")
    left = [key for key in range(16) if key not in (2, 11)]
    table.has(rows(left))
    table.open().update({"amount": "amount + 100"}, predicate="id < 4")
    changed: dict[int, float | None] = {key: key / 2 + 100 for key in (0, 1, 3)}
    table.has(rows(left, changed))
    merge = table.open().merge(rows([4, 20], {4: 7.0}), "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    changed[4] = 7.0
    table.has(rows([*left, 20], changed))
    table.open().optimize.compact()
    table.has(rows([*left, 20], changed))


@line(FEATURES, "CHECK constraints")
def check_constraints(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST), configuration={"delta.constraints.low": '"amount" < 1000 AND "id" >= 0'})
    table.write(rows(SECOND), rows(range(16)), mode="append")
    table.open().alter.add_constraint({"Named": 'id >= 0 AND (part IS NULL OR part <> "x\'y")'})
    table.has(rows(range(16)))
    table.open().update({"amount": "amount + 1"}, predicate="id = 3")
    table.has(rows(range(16), {3: 2.5}))
    table.open().alter.drop_constraint("low")
    table.has(rows(range(16), {3: 2.5}))


@line(FEATURES, "invariants and NOT NULL")
def invariants(table: OurTable) -> None:
    condition = {"delta.invariants": '{"expression": {"expression": "amount < 1000"}}'}
    fields = [Field("id", "long", nullable=False), Field("part", "string"), Field("amount", "double", True, condition)]
    DeltaTable.create(table.root, Schema(fields))
    table.has(rows([]))
    table.write(rows(FIRST), rows(FIRST), mode="append")
    table.open().update({"amount": "amount + 1"}, predicate="id = 3")
    table.has(rows(FIRST, {3: 2.5}))


@line(FEATURES, "null structs with NOT NULL members")
def null_structs(table: OurTable) -> None:
    kind = pa.struct([pa.field("city", pa.string(), nullable=False)])

    def people(*ids: int) -> pa.Table:
        values = [{"id": key, "address": {"city": str(key)} if key % 2 else None} for key in ids]
        return pa.Table.from_pylist(values, schema=pa.schema([("id", pa.int64()), ("address", kind)]))

    table.write(people(1, 2), people(1, 2))
    table.write(people(3, 4), people(1, 2, 3, 4), mode="append")


@line(FEATURES, "column mapping by name, enabled on a table with rows")
def mapping_enabled(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST))
    table.open().alter.set_table_properties({"delta.columnMapping.mode": "name"})
    table.has(rows(FIRST))
    table.open().alter.rename_column("amount", "price, `net` {=};\n(ä)")
    names = ["id", "part", "price, `net` {=};\n(ä)"]
    table.has(rows(FIRST).rename_columns(names))
    table.write(rows(SECOND).rename_columns(names), rows(range(16)).rename_columns(names), mode="append")
    table.open().alter.drop_columns(["part"])
    table.has(rows(range(16)).rename_columns(names).drop_columns(["part"]))
    table.open().alter.add_columns([Field("part", "string")])
    again = rows(range(16)).rename_columns(names).drop_columns(["part"]).append_column("part", pa.nulls(16, "string"))
    table.has(again)
    table.open().delete("id = 3")
    table.has(again.filter(pa.compute.field("id") != 3))


@line(FEATURES, "column mapping by name")
def mapped_by_name(table: OurTable) -> None:
    lifecycle(table, {"delta.columnMapping.mode": "name"})


@line(FEATURES, "column mapping by id")
def mapped_by_id(table: OurTable) -> None:
    lifecycle(table, {"delta.columnMapping.mode": "id"})


@line(FEATURES, "column mapping by name, partitioned")
def mapped_and_partitioned(table: OurTable) -> None:
    lifecycle(table, {"delta.columnMapping.mode": "name"}, partition_by=["part"])


@line(FEATURES, "type widening")
def type_widening(table: OurTable) -> None:
    narrow = pa.schema(
        [
            ("id", pa.int32()),
            ("tiny", pa.int8()),
            ("single", pa.float32()),
            ("price", pa.decimal128(5, 2)),
            ("day", pa.date32()),
        ]
    )
    wide = pa.schema(
        [
            ("id", pa.int64()),
            ("tiny", pa.float64()),
            ("single", pa.float64()),
            ("price", pa.decimal128(12, 4)),
            ("day", pa.timestamp("us")),
        ]
    )
    old = {
        "id": [1, 2, None],
        "tiny": [-128, 127, None],
        "single": [0.5, -0.0, None],
        "price": [Decimal("1.25"), Decimal("-999.99"), None],
        "day": [dt.date(2024, 2, 29), dt.date(1600, 1, 1), None],
    }
    before, after = pa.table(old, schema=narrow), pa.table(old, schema=narrow).cast(wide)
    new = pa.table(
        {
            "id": [2**40],
            "tiny": [1.5],
            "single": [0.1],
            "price": [Decimal("12345678.1234")],
            "day": [dt.datetime(2024, 2, 29, 12, 0, 0, 1)],
        },
        schema=wide,
    )
    table.write(before, before, configuration={"delta.enableTypeWidening": "true"})
    for index, (name, kind) in enumerate(
        [
            ("id", "long"),
            ("tiny", "double"),
            ("single", "double"),
            ("price", "decimal(12,4)"),
            ("day", "timestamp_ntz"),
        ]
    ):
        table.open().alter.change_column_type(name, kind)
        names = wide.names[: index + 1]
        table.has(pa.table({c: (after if c in names else before)[c] for c in wide.names}))
    table.write(new, pa.concat_tables([after, new]), mode="append")
    table.open().optimize.compact()
    table.has(pa.concat_tables([after, new]))


@line(FEATURES, "deletion vectors in the log")
def inline_vectors(table: OurTable) -> None:
    lifecycle(table, {"delta.enableDeletionVectors": "true"})
    kinds = {vector["storageType"] for vector in vectors(table, 2)}
    assert kinds == {"i"}


@line(FEATURES, "deletion vectors in files")
def vectors_in_files(table: OurTable) -> None:
    table.write(rows(range(4000)), rows(range(4000)), configuration={"delta.enableDeletionVectors": "true"})
    table.open().delete("id % 3 = 1")
    left = [key for key in range(4000) if key % 3 != 1]
    table.has(rows(left))
    table.open().update({"amount": "0.0"}, predicate="id % 5 = 0")
    table.has(rows(left, {key: 0.0 for key in left if key % 5 == 0}))
    assert {vector["storageType"] for vector in vectors(table, 1)} == {"u"}


@line(FEATURES, "deletion vectors, column mapping and row tracking, partitioned")
def all_together(table: OurTable) -> None:
    on = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    lifecycle(table, {**on, "delta.columnMapping.mode": "name"}, partition_by=["part"])


def vectors(table: OurTable, version: int) -> list[dict[str, Any]]:
    """The deletion vectors of a version."""
    return [vector for vector in table.open(version).snapshot.files["deletionVector"].to_pylist() if vector]


@line(FEATURES, "change data feed")
def change_data_feed(table: OurTable) -> None:
    lifecycle(table, ON_FEED)


@line(FEATURES, "change data feed, partitioned")
def change_data_feed_partitioned(table: OurTable) -> None:
    lifecycle(table, ON_FEED, partition_by=["part"])


@line(FEATURES, "change data feed and deletion vectors")
def change_data_feed_with_vectors(table: OurTable) -> None:
    lifecycle(table, {**ON_FEED, "delta.enableDeletionVectors": "true"})


@line(FEATURES, "row tracking")
def row_tracking(table: OurTable) -> None:
    lifecycle(table, {"delta.enableRowTracking": "true"})


@line(FEATURES, "row tracking, enabled on a table with rows")
def row_tracking_enabled(table: OurTable) -> None:
    """Three commits give ids to the rows: they add the feature, then the ids, then the property."""
    table.write(rows(FIRST), rows(FIRST))
    table.open().alter.set_table_properties({"delta.enableRowTracking": "true"})
    table.has(rows(FIRST), commits=3)
    table.open().update({"amount": "1.0"}, predicate="id = 1")
    table.has(rows(FIRST, {1: 1.0}))
    table.write(rows(SECOND), rows(range(16), {1: 1.0}), mode="append")


@line(FEATURES, "domain metadata")
def domain_metadata(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST), configuration={"delta.feature.domainMetadata": "supported"})
    for domain in (DomainMetadata("app.settings", '{"a": 1}', False), DomainMetadata("app.settings", "", True)):
        snapshot = table.open().snapshot
        transaction = OptimisticTransaction(snapshot, snapshot.store, "MANUAL UPDATE", {})
        transaction.set_domain(domain)
        assert isinstance(transaction.commit(), Committed)
        table.has(rows(FIRST))
        table.open().create_checkpoint()
    table.open().delete("id = 1")
    table.has(rows([0, *range(2, 10)]))


@line(FEATURES, "clustering columns")
def clustering_columns(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST))
    table.write(rows(SECOND), rows(range(16)), mode="append")
    table.open().alter.cluster_by(["id"])
    table.has(rows(range(16)))
    table.open().optimize.z_order(["id"])
    table.has(rows(range(16)))
    assert set(table.open().snapshot.files["clusteringProvider"].to_pylist()) == {"lakehouse"}
    table.write(rows(range(16, 20)), rows(range(20)), mode="append")
    table.open().delete("id = 3")
    left = [key for key in range(20) if key != 3]
    table.has(rows(left))
    table.open().alter.cluster_by(["part", "id"])
    table.has(rows(left))
    table.open().optimize.z_order(["part", "id"])
    table.has(rows(left))


@line(FEATURES, "clustering columns, removed")
def clustering_columns_removed(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST))
    table.open().alter.cluster_by(["id"])
    table.has(rows(FIRST))
    table.write(rows(SECOND), rows(range(16)), mode="append")
    table.open().alter.cluster_by(None)
    table.has(rows(range(16)))
    table.open().optimize.compact()
    table.has(rows(range(16)))


@line(FEATURES, "in-commit timestamps")
def in_commit_timestamps(table: OurTable) -> None:
    lifecycle(table, {"delta.enableInCommitTimestamps": "true"})


@line(FEATURES, "in-commit timestamps, enabled on a table with rows")
def in_commit_timestamps_enabled(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST))
    table.open().alter.set_table_properties({"delta.enableInCommitTimestamps": "true"})
    table.has(rows(FIRST))
    table.write(rows(SECOND), rows(range(16)), mode="append")


@line(FEATURES, "v2 checkpoints")
def v2_checkpoints(table: OurTable) -> None:
    lifecycle(table, {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"})


@line(FEATURES, "timestamp without time zone")
def timestamp_ntz(table: OurTable) -> None:
    moments = [dt.datetime(1900, 1, 1), dt.datetime(2024, 3, 31, 2, 30, 0, 1), None]
    first = pa.table({"id": [1, 2, 3], "at": pa.array(moments, pa.timestamp("us"))})
    table.write(first, first, partition_by=["at"])
    second = pa.table({"id": [4], "at": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us"))})
    table.write(second, pa.concat_tables([first, second]), mode="append")
    table.open().delete("at < '2000-01-01'")
    table.has(pa.concat_tables([first.slice(1), second]))


@line(FEATURES, "vacuumProtocolCheck")
def vacuum_protocol_check(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST), configuration={"delta.feature.vacuumProtocolCheck": "supported"})
    table.open().delete("id = 1")
    table.has(rows([0, *range(2, 10)]))
    table.open().vacuum(dry_run=False)
    table.write(rows(SECOND), rows([0, *range(2, 16)]), mode="append")


@line(FEATURES, "copies of partition columns")
def copies_of_partition_columns(table: OurTable) -> None:
    lifecycle(table, {"delta.enableMaterializePartitionColumnsFeature": "true"}, partition_by=["part"])


@line(FEATURES, "deletion vectors, dropped (checkpointProtection)")
def vectors_dropped(table: OurTable) -> None:
    """Six commits drop the feature: they unset the property, rewrite a file, write checkpoints, and drop it."""
    table.write(rows(FIRST), rows(FIRST), configuration={"delta.enableDeletionVectors": "true"})
    table.open().delete("id = 1")
    left = [0, *range(2, 10)]
    table.has(rows(left))
    table.open().alter.drop_feature(TableFeatures.DeletionVectors)
    table.has(rows(left), commits=6)
    table.write(rows(SECOND), rows([*left, *SECOND]), mode="append")


@line(FEATURES, "row tracking and in-commit timestamps, dropped")
def row_tracking_dropped(table: OurTable) -> None:
    """Three commits drop row tracking: they suspend it, remove the ids, and drop it."""
    on = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    table.write(rows(FIRST), rows(FIRST), configuration=on)
    table.open().update({"amount": "1.0"}, predicate="id = 1")
    table.has(rows(FIRST, {1: 1.0}))
    table.open().alter.drop_feature("rowTracking")
    table.has(rows(FIRST, {1: 1.0}), commits=3)
    for name in ("domainMetadata", "inCommitTimestamp"):
        table.open().alter.drop_feature(name)
        table.has(rows(FIRST, {1: 1.0}))
    table.write(rows(SECOND), rows(range(16), {1: 1.0}), mode="append")


@line(FEATURES, "append-only tables")
def append_only(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST), configuration={"delta.appendOnly": "true"})
    table.write(rows(SECOND), rows(range(16)), mode="append")
    table.open().optimize.compact()
    table.has(rows(range(16)))


@line(FEATURES, "features that are listed and not used")
def listed_features(table: OurTable) -> None:
    write_deltalake(table.root, rows(FIRST))
    table.has(rows(FIRST))
    names = [TableFeatures.DeletionVectors, TableFeatures.ColumnMapping, TableFeatures.CheckConstraints]
    table.open().alter.add_feature(names, allow_protocol_versions_increase=True)
    table.has(rows(FIRST))
    table.open().alter.drop_feature(TableFeatures.CheckConstraints)
    table.has(rows(FIRST))
    table.write(rows(SECOND), rows(range(16)), mode="append")
