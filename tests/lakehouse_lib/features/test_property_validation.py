"""Properties have the form in the log that every engine reads, and column names the form that every engine accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import QueryBuilder, WriterProperties

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import (
    ConstraintViolatedError,
    DeltaProtocolError,
    InvalidArgumentError,
    InvalidPredicateError,
    InvalidSchemaError,
    UnsupportedFeatureError,
)
from lakehouse_lib.features import changed_configuration, requested_features
from lakehouse_lib.ingestion.append import commit_once, plan_append
from lakehouse_lib.operations.write.create import create_table
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.store import open_store
from tests.log_builder import field, put_table
from tests.peers import read_duckdb

ROWS = pa.table({"a": [1, 2]})
PLAIN = Schema([Field("a", "long")])


@pytest.mark.parametrize("on", [True, "True", " TRUE", "true\n"])
def test_a_switch_has_the_same_value_for_all_readers(tmp_path: Path, on: Any) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.appendOnly": on})
    with pytest.raises(deltalake.exceptions.CommitFailedError):
        deltalake.DeltaTable(tmp_path).delete("a = 1")
    with pytest.raises(Exception, match="appendOnly"):
        DeltaTable(tmp_path).delete("a = 1")
    assert DeltaTable(tmp_path).metadata().configuration == {"delta.appendOnly": "true"}


def test_values_are_normalized_for_other_readers() -> None:
    properties: dict[str, Any] = {
        "delta.checkpointInterval": " 5 ",
        "delta.isolationLevel": "writeserializable ",
        "delta.checkpointPolicy": " v2",
        "delta.constraints.quoted": '"a" > 0 AND "A" < 9',
        "owner": " me ",
        "gone": None,
    }
    assert changed_configuration({}, properties, PLAIN) == {
        "delta.checkpointInterval": "5",
        "delta.isolationLevel": "WriteSerializable",
        "delta.checkpointPolicy": "v2",
        "delta.constraints.quoted": "`a` > 0 AND `A` < 9",
        "owner": "me",
    }


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"delta.appendonly": "true"}, InvalidArgumentError, "Write delta.appendOnly"),
        ({"DELTA.checkpointinterval": "5"}, InvalidArgumentError, "Write delta.checkpointInterval"),
        ({"delta.Constraints.c": "a > 0"}, InvalidArgumentError, "Write delta.constraints.c"),
        ({"delta.feature.deletionVectors": "on"}, InvalidArgumentError, "expected supported"),
        ({"delta.Feature.deletionVectors": "supported"}, InvalidArgumentError, "Write delta.feature.deletionVectors"),
        (
            {"delta.feature.columnMappingUsageTracking": "supported"},
            UnsupportedFeatureError,
            "would use columnMappingUsageTracking",
        ),
        ({"delta.feature.neverHeardOf": "supported"}, UnsupportedFeatureError, "would use neverHeardOf"),
        ({"delta.enableIcebergCompatV2": "true"}, UnsupportedFeatureError, "would use icebergCompatV2"),
        ({"delta.constraints.c": "a > '"}, InvalidPredicateError, "CHECK c .* is not valid"),
        ({"delta.columnMapping.mode": "ids"}, InvalidArgumentError, "expected none, name or id"),
        ({"delta.neverHeardOf": "1"}, InvalidArgumentError, "'delta.neverHeardOf' is not known"),
        ({"delta.columnMapping.maxColumnId": "4"}, InvalidArgumentError, "maxColumnId cannot be set by users"),
        ({"delta.inCommitTimestampEnablementVersion": None}, InvalidArgumentError, "EnablementVersion cannot be set"),
        ({"delta.setTransactionRetentionDuration": "x"}, InvalidArgumentError, "is not valid; expected an interval"),
        ({"delta.checkpointRetentionDuration": "x"}, InvalidArgumentError, "is not valid; expected an interval"),
        ({"delta.checkpointInterval": "99999999999"}, InvalidArgumentError, "a whole number from 1 to 2147483647"),
        ({"delta.checkpoint.writeStatsAsJson": "maybe"}, InvalidArgumentError, 'expected "true" or "false"'),
    ],
)
def test_values_that_other_readers_refuse_are_refused(
    properties: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        changed_configuration({}, properties, PLAIN)


def test_constraint_properties_are_found_in_any_case(tmp_path: Path) -> None:
    """delta-spark finds constraints in any case."""
    constraint = {"delta.CONSTRAINTS.pos": "a > 0"}
    put_table(tmp_path, [field("a", "long")], [], features=["checkConstraints"], configuration=constraint)
    with pytest.raises(ConstraintViolatedError, match=r"CHECK pos \(a > 0\): 1 of 1 rows, such as \{'a': -5\}"):
        write_deltalake(tmp_path, pa.table({"a": [-5]}), mode="append")


def test_each_spelling_of_a_constraints_name_is_a_rule(tmp_path: Path) -> None:
    """Other writers store constraints whose names differ only in case; each of them is enforced."""
    both = {"delta.constraints.Pos": "a > 0", "delta.constraints.pos": "a < 10"}
    put_table(tmp_path, [field("a", "long")], [], features=["checkConstraints"], configuration=both)
    for value, reason in ((-5, r"CHECK Pos \(a > 0\)"), (50, r"CHECK pos \(a < 10\)")):
        with pytest.raises(ConstraintViolatedError, match=reason):
            write_deltalake(tmp_path, pa.table({"a": [value]}), mode="append")
    with pytest.raises(InvalidArgumentError, match="exists already"):
        DeltaTable(tmp_path).alter.add_constraint({"POS": "a < 10"})
    assert changed_configuration(both, {"delta.constraints.pos": "a < 9"}, PLAIN)["delta.constraints.pos"] == "a < 9"
    for current, change in (({}, both), ({"delta.constraints.Pos": "a > 0"}, {"delta.constraints.pos": "a < 10"})):
        with pytest.raises(InvalidArgumentError, match="names the same constraint as") as refused:
            changed_configuration(current, change, PLAIN)
        assert refused.value.code == "DELTA_CONSTRAINT_ALREADY_EXISTS"
    DeltaTable(tmp_path).alter.drop_constraint("pos")
    assert DeltaTable(tmp_path).metadata().configuration == {}


def test_a_change_leaves_the_other_properties_as_they_are() -> None:
    """Only the change is checked, not properties that are not valid or that this library does not write."""
    current = {"delta.columnMapping.mode": "name", "delta.isolationLevel": "Foo", "owner": "me", "delta.x": "1"}
    change = {"delta.checkpointInterval": "5", "owner": None, "delta.appendOnly": None}
    assert changed_configuration(current, change, PLAIN) == {
        "delta.columnMapping.mode": "name",
        "delta.isolationLevel": "Foo",
        "delta.x": "1",
        "delta.checkpointInterval": "5",
    }
    torn = {"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true"}
    assert changed_configuration(torn, {"owner": "me"}, PLAIN) == {**torn, "owner": "me"}
    with pytest.raises(InvalidArgumentError, match="are both true"):
        changed_configuration({"delta.rowTrackingSuspended": "true"}, {"delta.enableRowTracking": "true"}, PLAIN)


def test_row_tracking_keeps_its_column_names() -> None:
    first = changed_configuration({}, {"delta.enableRowTracking": "true"}, PLAIN)
    assert len(first) == 3
    paused = changed_configuration(first, {"delta.enableRowTracking": "false"}, PLAIN)
    assert changed_configuration(paused, {"delta.enableRowTracking": "true"}, PLAIN) == first


def test_a_column_of_an_unsupported_feature_is_refused(tmp_path: Path) -> None:
    schema = Schema([Field("a", "string", metadata={"__COLLATIONS": {"a": "ICU.de"}})])
    with pytest.raises(UnsupportedFeatureError, match="collations"):
        create_table(open_store(tmp_path), schema)
    assert not (tmp_path / "_delta_log").exists()


@pytest.mark.parametrize("name", ["delta.neverHeardOf", "delta.appendOnyl", "delta.inCommitTimestampEnablementVersion"])
def test_names_that_delta_rs_refuses_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(deltalake.exceptions.DeltaError):
        deltalake.write_deltalake(tmp_path / "theirs", ROWS, configuration={name: "1"})
    with pytest.raises(InvalidArgumentError, match=name):
        write_deltalake(tmp_path / "ours", ROWS, configuration={name: "1"})


@pytest.mark.parametrize(
    "configuration", [{"delta.enableDeletionVectors": True}, {"delta.feature.deletionVectors": "supported"}]
)
@pytest.mark.parametrize("created", [True, False])
def test_new_tables_with_deletion_vectors_are_readable_by_others(
    tmp_path: Path, configuration: dict[str, Any], created: bool
) -> None:
    if created:
        DeltaTable.create(tmp_path, ROWS.schema, configuration=configuration)
        write_deltalake(tmp_path, ROWS, mode="append")
    else:
        write_deltalake(tmp_path, ROWS, configuration=configuration)
    delta_rs_table = deltalake.DeltaTable(tmp_path)
    protocol = delta_rs_table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == ["deletionVectors"]
    assert sorted(protocol.writer_features or ()) == ["appendOnly", "deletionVectors", "invariants"]
    by_property = {"delta.enableDeletionVectors": "true"}
    assert delta_rs_table.metadata().configuration == (
        by_property if configuration.keys() == by_property.keys() else {}
    )
    deltalake.write_deltalake(tmp_path, pa.table({"a": [3]}), mode="append")
    assert DeltaTable(tmp_path).delete("a = 1")["num_deleted_rows"] == 1
    assert sorted(read_duckdb(tmp_path)["a"].to_pylist()) == [2, 3]
    answer = pa.table(QueryBuilder().register("t", deltalake.DeltaTable(tmp_path)).execute("SELECT a FROM t"))
    assert sorted(answer["a"].to_pylist()) == [2, 3]


def test_requested_features_come_with_what_they_require(tmp_path: Path) -> None:
    configuration: dict[str, Any] = {"delta.feature.rowTracking": "enabled", "delta.feature.appendOnly": "supported"}
    assert requested_features(configuration) == {"rowTracking", "appendOnly"}
    table = DeltaTable.create(tmp_path, ROWS.schema, configuration=configuration)
    listed = ["appendOnly", "domainMetadata", "invariants", "rowTracking"]
    assert sorted(deltalake.DeltaTable(tmp_path).protocol().writer_features or ()) == listed
    assert table.metadata().configuration == {}
    DeltaTable.create(
        tmp_path, ROWS.schema, mode="overwrite", configuration={"delta.feature.v2Checkpoint": "supported"}
    )
    protocol = deltalake.DeltaTable(tmp_path).protocol()
    assert protocol.reader_features == ["v2Checkpoint"]
    assert sorted(protocol.writer_features or ()) == [*listed, "v2Checkpoint"]


@pytest.mark.parametrize("name", ["b=c", "", "b\nc", "b\tc"])
@pytest.mark.parametrize("nested", [False, True])
def test_columns_that_are_added_have_names_as_those_of_new_tables(tmp_path: Path, name: str, nested: bool) -> None:
    more = pa.array([1])
    column = pa.StructArray.from_arrays([more], names=[name]) if nested else more
    rows = pa.table({"a": pa.array([1]), "s" if nested else name: column})
    with pytest.raises(InvalidSchemaError, match="columns cannot have these names"):
        write_deltalake(tmp_path / "new", rows)
    write_deltalake(tmp_path / "t", ROWS)
    with pytest.raises(InvalidSchemaError, match="DELTA_INVALID_COLUMN_NAME"):
        write_deltalake(tmp_path / "t", rows, mode="append", schema_mode="merge")
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1


def test_columns_can_be_added_to_a_table_with_odd_names(tmp_path: Path) -> None:
    odd = pa.table({"a b": [1], "s": pa.array([{"x y": 1}])})
    deltalake.write_deltalake(tmp_path, odd, writer_properties=WriterProperties())
    rows = pa.table({"a b": [2], "s": pa.array([{"x y": 2, "z": 3}]), "new": [4]})
    write_deltalake(tmp_path, rows, mode="append", schema_mode="merge")
    table_rows = DeltaTable(tmp_path).to_pyarrow_table().sort_by("a b").to_pylist()
    assert table_rows == [
        {"a b": 1, "s": {"x y": 1, "z": None}, "new": None},
        {"a b": 2, "s": {"x y": 2, "z": 3}, "new": 4},
    ]


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_commit_timestamp"])
def test_a_table_with_a_change_feed_refuses_columns_with_its_names(tmp_path: Path, name: str) -> None:
    feed, rows = {"delta.enableChangeDataFeed": "true"}, pa.table({"a": [1], name: ["x"]})
    with pytest.raises(InvalidSchemaError, match="change data feed"):
        write_deltalake(tmp_path / "new", rows, configuration=feed)
    write_deltalake(tmp_path / "t", ROWS, configuration=feed)
    with pytest.raises(InvalidSchemaError, match="change data feed"):
        write_deltalake(tmp_path / "t", rows, mode="append", schema_mode="merge")
    write_deltalake(tmp_path / "none", rows)
    write_deltalake(tmp_path / "none", rows, mode="append", schema_mode="merge")


def test_a_batch_adds_columns_with_the_features_that_they_need(tmp_path: Path) -> None:
    store = open_store(tmp_path)

    def batch(number: int, *names: str) -> None:
        schema = Schema([Field(name, "timestamp_ntz" if name == "at" else "long") for name in names])
        rows = schema.to_arrow().empty_table()
        plan = plan_append(store, schema)
        commit_once(plan, ArrowEngine().write(rows, plan.target), ArrowEngine(), app_id="erp", number=number)

    batch(0, "a")
    batch(1, "a", "at")
    assert "timestampNtz" in (DeltaTable(tmp_path).protocol().writer_features or ())
    with pytest.raises(InvalidSchemaError, match="DELTA_INVALID_COLUMN_NAME"):
        batch(2, "a", "b=c")


def test_a_refused_change_of_an_append_only_table_leaves_no_files(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.appendOnly": "true"})
    for act in (
        lambda: write_deltalake(tmp_path, ROWS, mode="overwrite"),
        lambda: DeltaTable(tmp_path).delete("a = 1"),
        lambda: DeltaTable(tmp_path).delete(),
    ):
        with pytest.raises(DeltaProtocolError, match="rows cannot be removed"):
            act()
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    assert DeltaTable(tmp_path).delete("a = 5")["num_deleted_rows"] == 0
