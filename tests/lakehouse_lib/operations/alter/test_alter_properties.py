"""ALTER of properties, the protocol's versions and features, and column mapping of a table with rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, Field, write_deltalake
from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.features import FEATURES, writer_features
from tests.log_builder import field, put_table
from tests.peers import plain, read_by_all

ROWS = pa.table(
    {"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None], "s": [{"x": 1}, {"x": 2}, None]},
    schema=pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("s", pa.struct([("x", pa.int64())]))]
    ),
)


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"delta.constraints.c": "id > 0"}, InvalidArgumentError, "alter.add_constraint"),
        ({"delta.minReaderVersion": "4"}, InvalidArgumentError, "expected a whole number from 1 to 3"),
        ({"delta.minWriterVersion": "x"}, InvalidArgumentError, "expected a whole number from 1 to 7"),
        ({"delta.minwriterversion": "5"}, InvalidArgumentError, "expected delta.minWriterVersion"),
        ({"delta.checkpointInterval": "often"}, InvalidArgumentError, "expected a whole number"),
        ({"delta.enableIcebergCompatV2": "true"}, UnsupportedFeatureError, "icebergCompatV2"),
        ({"delta.columnMapping.mode": "id"}, UnsupportedFeatureError, "from none to id"),
        ({"delta.appendOnly": None}, InvalidArgumentError, "unset_table_properties"),
        ("delta.appendOnly", InvalidArgumentError, "expected a dictionary"),
    ],
    ids=str,
)
def test_properties_that_are_refused(tmp_path: Path, properties: Any, error: type[Exception], message: str) -> None:
    write_deltalake(tmp_path, ROWS)
    with pytest.raises(error, match=message):
        DeltaTable(tmp_path).alter.set_table_properties(properties, raise_if_not_exists=False)
    assert DeltaTable(tmp_path).version() == 0


@pytest.mark.parametrize("versions", [(2, 5), (1, 4), (1, 2), (3, 7), (1, 7)], ids=str)
@pytest.mark.parametrize("created", [True, False], ids=["a new table", "an existing table"])
def test_versions_of_the_protocol(tmp_path: Path, versions: tuple[int, int], created: bool) -> None:
    properties = {"delta.minReaderVersion": str(versions[0]), "delta.minWriterVersion": str(versions[1])}
    write_deltalake(tmp_path, ROWS, configuration=properties if created else None)
    table = DeltaTable(tmp_path)
    if not created:
        table.alter.set_table_properties(properties)
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == versions
    assert (protocol.writer_features is not None) == (versions[1] == 7)
    assert (protocol.reader_features is not None) == (versions[0] == 3)
    assert table.metadata().configuration == {}
    write_deltalake(tmp_path, ROWS, mode="append")
    assert len(read_by_all(tmp_path)) == 6
    deltalake.write_deltalake(tmp_path, ROWS, mode="append")
    assert DeltaTable(tmp_path).count() == 9


def test_a_feed_is_refused_where_columns_have_its_names(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"_change_type": [1]}))
    with pytest.raises(InvalidSchemaError, match="_change_type"):
        DeltaTable(tmp_path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})


def test_unset(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.appendOnly": "true", "owner": "me"})
    table = DeltaTable(tmp_path)
    with pytest.raises(InvalidArgumentError, match="does not have the property 'nothing'"):
        table.alter.unset_table_properties(["owner", "nothing"])
    table.alter.unset_table_properties(["owner", "delta.appendOnly", "nothing"], raise_if_not_exists=False)
    assert table.metadata().configuration == {}
    assert table.delete("id = 1")["num_deleted_rows"] == 1


@pytest.mark.parametrize("name", ["delta.neverHeardOf", "delta.appendonly", "delta.Feature.x"])
def test_a_property_of_another_engine_is_unset(tmp_path: Path, name: str) -> None:
    put_table(tmp_path, [field("a", "long")], [], configuration={name: "1"})
    table = DeltaTable(tmp_path)
    with pytest.raises(InvalidArgumentError, match="is not known"):
        table.alter.set_table_properties({name: "1"})
    table.alter.unset_table_properties([name])
    assert table.metadata().configuration == {}


@pytest.mark.parametrize("name", sorted(FEATURES))
def test_a_feature_that_cannot_be_added_changes_nothing(tmp_path: Path, name: str) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    try:
        table.alter.add_feature(name, allow_protocol_versions_increase=True)
    except UnsupportedFeatureError as error:
        assert name in str(error)  # noqa: PT017 - some features are refused by name
        assert DeltaTable(tmp_path).version() == 0
        return
    protocol = DeltaTable(tmp_path).snapshot.protocol
    assert {name, *FEATURES[name].requires, "appendOnly", "invariants"} <= writer_features(protocol)
    write_deltalake(tmp_path, ROWS, mode="append")


@pytest.mark.parametrize(
    ("added", "dropped", "versions"),
    [
        ({"delta.constraints.c": "id > 0"}, "checkConstraints", (1, 2)),
        ({"delta.enableChangeDataFeed": "true"}, "changeDataFeed", (1, 7)),  # generatedColumns stays
        ({"delta.enableDeletionVectors": "true"}, "appendOnly", (3, 7)),
    ],
    ids=str,
)
def test_features_that_are_not_used_are_dropped(
    tmp_path: Path, added: dict[str, str], dropped: str, versions: tuple[int, int]
) -> None:
    write_deltalake(tmp_path, ROWS, configuration=added)
    table = DeltaTable(tmp_path)
    before = writer_features(table.snapshot.protocol)
    if dropped != "appendOnly":
        with pytest.raises(InvalidArgumentError, match="the table uses it"):
            table.alter.drop_feature(dropped)
        if dropped == "checkConstraints":
            table.alter.drop_constraint("c")
        else:
            table.alter.unset_table_properties(list(added))
    table.alter.drop_feature(dropped)
    protocol = DeltaTable(tmp_path).snapshot.protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == versions
    assert writer_features(protocol) == before - {dropped}
    write_deltalake(table, ROWS, mode="append")
    assert deltalake.DeltaTable(tmp_path).protocol().min_writer_version == versions[1]
    with pytest.raises(InvalidArgumentError, match="does not have the feature"):
        table.alter.drop_feature(dropped)


@pytest.mark.parametrize(
    ("feature", "error", "message"),
    [
        ("variantShredding", UnsupportedFeatureError, "variantShredding cannot be dropped"),
        ("invariants", InvalidArgumentError, "the table uses it"),  # a column is NOT NULL
        ("nothing", InvalidArgumentError, "does not have the feature 'nothing'"),
        (5, InvalidArgumentError, "does not have the feature 5"),
    ],
    ids=str,
)
def test_features_that_cannot_be_dropped(tmp_path: Path, feature: Any, error: type[Exception], message: str) -> None:
    enabled = {"delta.enableDeletionVectors": "true", "delta.feature.variantShredding": "supported"}
    write_deltalake(tmp_path, ROWS, configuration=enabled)
    with pytest.raises(error, match=message):
        DeltaTable(tmp_path).alter.drop_feature(feature)
    assert DeltaTable(tmp_path).version() == 0


# Column mapping of an existing table.


def test_a_table_with_rows_gets_column_mapping(tmp_path: Path) -> None:
    for mode in ("error", "append"):
        write_deltalake(tmp_path, ROWS, mode=mode, partition_by=["name"])
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties({"delta.columnMapping.mode": "name"})
    table.alter.add_columns(Field("price (EUR)", "double"))
    more = ROWS.append_column("price (EUR)", pa.array([1.5, 2.5, 3.5]))
    write_deltalake(table, more, mode="append")
    table.update({"`price (EUR)`": "0.5"}, predicate="id = 1 AND `price (EUR)` IS NULL")
    rows = table.to_pyarrow_table().to_pylist()
    assert sorted(row["price (EUR)"] for row in rows if row["id"] == 1) == [0.5, 0.5, 1.5]
    assert table.optimize.compact()["totalConsideredFiles"] > 0
    by_sql = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path))
    by_peer = plain(pa.table(by_sql.execute('SELECT id, name, s, "price (EUR)" FROM t').read_all()))
    assert by_peer.equals(plain(table.to_pyarrow_table().select(by_peer.column_names)))
    with pytest.raises(UnsupportedFeatureError, match="from name to id"):
        table.alter.set_table_properties({"delta.columnMapping.mode": "id"})
