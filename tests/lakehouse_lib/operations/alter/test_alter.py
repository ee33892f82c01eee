"""ALTER: the same calls as deltalake's ``table.alter`` give the same schema, protocol and properties."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.schema import Field as TheirField
from deltalake.schema import PrimitiveType as TheirPrimitive
from deltalake.schema import StructType as TheirStruct

from lakehouse_lib import (
    ArrayType,
    CommitProperties,
    DeltaTable,
    Field,
    MapType,
    PrimitiveType,
    StructType,
    TableFeatures,
    write_deltalake,
)
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.incoming import incoming
from lakehouse_lib.errors import (
    ConcurrentAppendError,
    DeltaError,
    InvalidArgumentError,
    InvalidSchemaError,
    MetadataChangedError,
    SchemaMismatchError,
)
from lakehouse_lib.operations.alter.constraints import add_constraints
from lakehouse_lib.operations.alter.properties import set_table_name, set_table_properties
from lakehouse_lib.operations.write.write import Write, write
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.peers import parquet_files, read_by_all, read_delta_rs

ROWS = pa.table(
    {"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None], "s": [{"x": 1}, {"x": 2}, None]},
    schema=pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("s", pa.struct([("x", pa.int64())]))]
    ),
)


class OwnNames:
    """The names of this library."""

    Field, Primitive, Struct, Features = Field, PrimitiveType, StructType, TableFeatures


class PeerNames:
    """The names of deltalake."""

    Field, Primitive, Struct, Features = TheirField, TheirPrimitive, TheirStruct, deltalake.TableFeatures


Call = Callable[[Any, Any], object]
SAME: dict[str, Call] = {
    "column": lambda alter, of: alter.add_columns(of.Field("z", of.Primitive("integer"))),
    "columns": lambda alter, of: alter.add_columns(
        [of.Field("z", of.Primitive("decimal(5,2)")), of.Field("t", of.Struct([of.Field("y", of.Primitive("date"))]))]
    ),
    "member": lambda alter, of: alter.add_columns([of.Field("s", of.Struct([of.Field("y", of.Primitive("string"))]))]),
    "same column": lambda alter, of: alter.add_columns([of.Field("name", of.Primitive("string"))]),
    "column with a comment": lambda alter, of: alter.add_columns(
        [of.Field("z", of.Primitive("string"), metadata={"comment": "new"})]
    ),
    "other type": lambda alter, of: alter.add_columns([of.Field("id", of.Primitive("string"))]),
    "other case": lambda alter, of: alter.add_columns([of.Field("ID", of.Primitive("long"))]),
    "constraint": lambda alter, _: alter.add_constraint({"positive": "id > 0"}),
    "two constraints": lambda alter, _: alter.add_constraint({"a": "id > 0", "b": "id < 9 AND name IS NULL OR id < 3"}),
    "violated constraint": lambda alter, _: alter.add_constraint({"positive": "id > 1"}),
    "null constraint": lambda alter, _: alter.add_constraint({"positive": "name > ''"}),
    "no constraint": lambda alter, _: alter.add_constraint({}),
    "constraint on nothing": lambda alter, _: alter.add_constraint({"c": "nothing > 1"}),
    "constraint twice": lambda alter, _: [alter.add_constraint({"c": f"id > {limit}"}) for limit in (0, -1)],
    "dropped": lambda alter, _: [alter.add_constraint({"c": "id > 0"}), alter.drop_constraint("c")],
    "drop nothing": lambda alter, _: alter.drop_constraint("c"),
    "drop nothing quietly": lambda alter, _: alter.drop_constraint("c", raise_if_not_exists=False),
    "property": lambda alter, _: alter.set_table_properties({"delta.appendOnly": "true"}),
    "feed": lambda alter, _: alter.set_table_properties({"delta.enableChangeDataFeed": "true"}),
    "own property": lambda alter, _: alter.set_table_properties({"owner": "me"}, raise_if_not_exists=False),
    "unknown property": lambda alter, _: alter.set_table_properties({"owner": "me"}),
    "unknown delta property": lambda alter, _: alter.set_table_properties({"delta.owner": "me"}),
    "name": lambda alter, _: alter.set_table_name("orders"),
    "no name": lambda alter, _: alter.set_table_name(""),
    "long name": lambda alter, _: alter.set_table_name("n" * 256),
    "description": lambda alter, _: alter.set_table_description("all orders"),
    "no description": lambda alter, _: alter.set_table_description(""),
    "long description": lambda alter, _: alter.set_table_description("d" * 4001),
    "comment": lambda alter, _: [alter.set_column_metadata("name", {key: "x"}) for key in ("comment", "unit")],
    "comment of nothing": lambda alter, _: alter.set_column_metadata("nothing", {"comment": "x"}),
    "reserved metadata": lambda alter, _: alter.set_column_metadata("name", {"delta.columnMapping.id": "1"}),
    "nullable": lambda alter, _: alter.drop_column_not_null("id"),
    "nullable already": lambda alter, _: alter.drop_column_not_null("name"),
    "nullable nothing": lambda alter, _: alter.drop_column_not_null("nothing"),
    "feature without versions": lambda alter, of: alter.add_feature(of.Features.DeletionVectors),
    "feature": lambda alter, of: alter.add_feature(of.Features.DeletionVectors, True),
    "features": lambda alter, of: alter.add_feature(
        [of.Features.ChangeDataFeed, of.Features.AppendOnly, of.Features.Invariants], True
    ),
}
#: Their operations for which delta-spark has another name.
RENAMED = {"ADD COLUMN": "ADD COLUMNS", "UPDATE FIELD METADATA": "CHANGE COLUMN"}


@pytest.mark.parametrize("call", SAME)
def test_beside_deltalake(tmp_path: Path, call: str) -> None:
    own, peer = tmp_path / "own", tmp_path / "peer"
    write_deltalake(own, ROWS)
    shutil.copytree(own, peer)
    table, peer_table = DeltaTable(own), deltalake.DeltaTable(peer)
    refused = None
    try:
        SAME[call](peer_table.alter, PeerNames)
    except Exception as error:
        refused = error
    if refused is not None:
        with pytest.raises(DeltaError):
            SAME[call](table.alter, OwnNames)
        return
    SAME[call](table.alter, OwnNames)
    assert table.version() == peer_table.version()
    assert json.loads(table.schema().to_json()) == json.loads(peer_table.schema().to_json())
    assert table.metadata().configuration == peer_table.metadata().configuration
    assert (table.metadata().name, table.metadata().description) == (
        peer_table.metadata().name,
        peer_table.metadata().description,
    )
    protocol, expected = table.protocol(), peer_table.protocol()
    assert protocol.min_reader_version == expected.min_reader_version
    assert protocol.min_writer_version == expected.min_writer_version
    # Their lists lack the features that the versions 1 and 2 implied.
    assert set(protocol.writer_features or ()) >= set(expected.writer_features or ())
    assert (protocol.reader_features or []) == (expected.reader_features or [])
    operations = [entry["operation"] for entry in peer_table.history()]
    assert [entry["operation"] for entry in table.history()] == [RENAMED.get(name, name) for name in operations]
    assert deltalake.DeltaTable(own).metadata().configuration == table.metadata().configuration


def test_commits_are_described_as_by_delta_spark(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    alter = DeltaTable(tmp_path).alter
    alter.add_columns(Field("z", "integer"), commit_properties=CommitProperties(custom_metadata={"who": "me"}))
    alter.add_constraint({"Positive": "id > 0"})
    alter.drop_constraint("POSITIVE")
    alter.set_table_properties({"delta.appendOnly": "true"})
    alter.unset_table_properties(["delta.appendOnly"])
    alter.set_column_metadata("z", {"comment": "new"})
    commits = DeltaTable(tmp_path).history()[::-1][1:]
    assert commits[0]["who"] == "me"
    described = [(commit["operation"], commit["operationParameters"]) for commit in commits]
    column = {"name": "z", "type": "integer", "nullable": True, "metadata": {}}
    assert [(name, {key: _parsed(value) for key, value in values.items()}) for name, values in described] == [
        ("ADD COLUMNS", {"columns": [{"column": column}]}),
        ("ADD CONSTRAINT", {"name": "Positive", "expr": "id > 0"}),
        ("DROP CONSTRAINT", {"name": "POSITIVE", "expr": "id > 0", "existed": True}),
        ("SET TBLPROPERTIES", {"properties": {"delta.appendOnly": "true"}}),
        ("UNSET TBLPROPERTIES", {"properties": ["delta.appendOnly"], "ifExists": False}),
        ("CHANGE COLUMN", {"column": column | {"metadata": {"comment": "new"}}}),
    ]


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_commit_properties_by_position(tmp_path: Path) -> None:
    """As in deltalake, whose order differs between the verbs."""
    write_deltalake(tmp_path, ROWS)
    properties = CommitProperties(custom_metadata={"who": "me"})
    alter = DeltaTable(tmp_path).alter
    with pytest.warns(DeprecationWarning, match="passed positionally"):
        alter.add_constraint({"c": "id > 0"}, None, properties)
    with pytest.warns(DeprecationWarning, match="passed positionally"):
        alter.set_table_name("a", properties)
    assert [commit.get("who") for commit in DeltaTable(tmp_path).history()] == ["me", "me", None]


# Columns.


def test_new_columns_are_null_in_existing_rows(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    table = DeltaTable(tmp_path)
    table.alter.add_columns([Field("z", "integer"), Field("s", StructType([Field("y", "string")]))])
    row = {"id": 4, "name": "d", "s": {"x": 4, "y": "four"}, "z": 4}
    write_deltalake(table, pa.Table.from_pylist([row], table.schema().to_arrow()), mode="append")
    assert read_by_all(tmp_path).to_pylist() == [
        {"id": 1, "name": "a", "s": {"x": 1, "y": None}, "z": None},
        {"id": 2, "name": "b", "s": {"x": 2, "y": None}, "z": None},
        {"id": 3, "name": None, "s": None, "z": None},
        row,
    ]


def test_members_inside_lists_and_maps(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"l": [[{"x": 1}]], "m": pa.array([[("k", {"x": 1})]], MAP)}))
    more = StructType([Field("y", "string")])
    table = DeltaTable(tmp_path)
    table.alter.add_columns([Field("l", ArrayType(more)), Field("m", MapType("string", more))])
    assert table.to_pyarrow_table().to_pylist() == [{"l": [{"x": 1, "y": None}], "m": [("k", {"x": 1, "y": None})]}]


MAP = pa.map_(pa.string(), pa.struct([("x", pa.int64())]))


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ([Field("z", "integer", nullable=False)], InvalidSchemaError, "'z' is NOT NULL"),
        (
            [Field("s", StructType([Field("y", "long", nullable=False)]))],
            InvalidSchemaError,
            "'s.y' is NOT NULL",
        ),
        ([Field("s", StructType([Field("x", "string")]))], SchemaMismatchError, "s.x is string, expected long"),
        ([Field("a=b", "long")], InvalidSchemaError, "cannot have these names"),
        ([Field("v", PrimitiveType.of_name("interval year"))], InvalidSchemaError, "interval year"),
        ([Field("z", "long", metadata={"delta.invariants": "x"})], InvalidArgumentError, "only engines set"),
        ([], InvalidArgumentError, "at least one"),
        (["z"], InvalidArgumentError, "at least one"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_columns_that_are_refused(tmp_path: Path, fields: Any, error: type[Exception], message: str) -> None:
    write_deltalake(tmp_path, ROWS)
    with pytest.raises(error, match=message):
        DeltaTable(tmp_path).alter.add_columns(fields)
    assert DeltaTable(tmp_path).version() == 0


COMPUTED = {
    "generation expression": {"delta.generationExpression": "id + 1"},
    "identity": {"delta.identity.start": 1, "delta.identity.step": 1},
    "default": {"CURRENT_DEFAULT": "1"},
}


@pytest.mark.parametrize("kind", COMPUTED)
def test_computed_columns_are_not_added(tmp_path: Path, kind: str) -> None:
    """As in delta-spark: existing rows would lack the values that new rows get."""
    write_deltalake(tmp_path, ROWS)
    alter = DeltaTable(tmp_path).alter
    member = StructType([Field("x", "long", metadata=COMPUTED[kind])])
    for refused in (
        lambda: alter.add_columns(Field("z", "long", metadata=COMPUTED[kind])),
        lambda: alter.add_columns(Field("new", member)),
        lambda: alter.set_column_metadata("id", COMPUTED[kind]),
    ):
        with pytest.raises(InvalidArgumentError, match=f"; expected no {kind}") as error:
            refused()
        assert error.value.code == "DELTA_COMPUTED_COLUMN_NOT_ADDED"
    assert DeltaTable(tmp_path).version() == 0


# Concurrent commits.


def test_conflicts(tmp_path: Path) -> None:
    """As in delta-spark, with overlap decided by statistics: what conflicts with an append, and what does not."""
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    snapshot = load_snapshot(open_store(tmp_path))
    engine = ArrowEngine()

    def append(number: int) -> None:
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")

    append(5)
    set_table_properties(snapshot, {"delta.appendOnly": "true"}, ArrowEngine())  # an append is not read
    snapshot = load_snapshot(snapshot.store)
    append(7)
    add_constraints(snapshot, {"positive": "id > 0"}, engine)  # the new row satisfies it, as its statistics say
    snapshot = load_snapshot(snapshot.store)
    append(9)
    with pytest.raises(ConcurrentAppendError):
        add_constraints(snapshot, {"small": "id < 9"}, engine)
    set_table_name(snapshot, "a")
    with pytest.raises(MetadataChangedError):
        set_table_name(snapshot, "b")
    snapshot = load_snapshot(snapshot.store)
    DeltaTable(tmp_path).alter.add_constraint({"small": "id < 10"})
    files = parquet_files(tmp_path)
    with pytest.raises(MetadataChangedError, match=r"delta\.constraints\.small"):
        write(snapshot.store, incoming(pa.table({"id": [11]})), Write("append"), engine, snapshot=snapshot)
    assert parquet_files(tmp_path) == files
    assert read_delta_rs(tmp_path)["id"].to_pylist() == [1, 5, 7, 9]
