"""Tables with column mapping written by both engines, and read by other readers."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError, InvalidSchemaError, UnsupportedFeatureError
from lakehouse_lib.schema import ArrayType, Field, Schema, StructType
from lakehouse_lib.schema.column_mapping import field_id, physical_name, with_physical_names
from tests.peers import plain, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow

MODES = ["name", "id"]
ROWS = pa.table(
    {
        "a b": pa.array([1, 2, 3, 4], pa.int64()),
        "p;q": ["x", "y", "x", "y"],
        "s": [{"m=n": 0.5, "l": [{"z z": number}, None]} for number in range(4)],
    }
)


def physical(table: DeltaTable) -> dict[str, tuple[str, int | None]]:
    return {field.name: (physical_name(field, "name"), field_id(field)) for field in table.schema().fields}


def by_query(path: Path) -> pa.Table:
    """The rows as delta-rs' query engine reads them, because its reader of Arrow tables has no column mapping."""
    answer = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(path))).execute("SELECT * FROM t")
    return plain(pa.table(answer.read_all()))


def field_ids(kind: pa.Schema | pa.DataType) -> list[int]:
    """The field ids of all columns and members with an id, at every depth."""
    ids = []
    for field in list(kind) if isinstance(kind, pa.Schema) else [kind.field(i) for i in range(kind.num_fields)]:
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        ids += [int(number)] if number is not None and int(number) >= 0 else []
        ids += field_ids(field.type)
    return ids


@pytest.mark.parametrize("engine", some_slow(["arrow", "spark"], 1), indirect=True)
@pytest.mark.parametrize("partition_by", some_slow([["p;q"], None], 1))
@pytest.mark.parametrize("mode", some_slow(MODES, 1))
def test_every_verb_writes_physical_names(
    tmp_path: Path, engine: Engine, mode: str, partition_by: list[str] | None
) -> None:
    configuration = {"delta.columnMapping.mode": mode}
    write_deltalake(tmp_path, ROWS, configuration=configuration, partition_by=partition_by, engine=engine)
    wider = ROWS.append_column("new,column", pa.array([5, 6, 7, 8], pa.int64()))
    write_deltalake(tmp_path, wider, mode="append", schema_mode="merge", engine=engine)
    table = DeltaTable(tmp_path, engine=engine)
    assert table.delete("`a b` = 2 AND `p;q` = 'y'")["num_deleted_rows"] == 2
    assert table.optimize.compact()["numFilesRemoved"] > 1
    write_deltalake(tmp_path, ROWS, mode="append", engine=engine)
    assert table.optimize.z_order(["a b"])["numFilesRemoved"] > 1
    table.create_checkpoint()
    nothing = pa.nulls(4, pa.int64())
    old = ROWS.append_column("new,column", nothing).filter(pa.array([True, False, True, True]))
    new = wider.filter(pa.array([True, False, True, True]))
    expected = plain(pa.concat_tables([old, new, ROWS.append_column("new,column", nothing)]))
    table = DeltaTable(tmp_path)
    assert plain(table.to_pyarrow_table()) == expected
    assert by_query(tmp_path) == expected
    if partition_by is None:  # DuckDB shows partition columns of tables with column mapping as NULL
        assert read_duckdb(tmp_path) == expected
    names = physical(table)
    for uri in table.file_uris():
        file = pq.read_schema(uri)
        assert set(file.names) <= {stored for stored, _ in names.values()}
        assert len(set(field_ids(file))) == len(field_ids(file)) >= 5
    assert table.metadata().configuration["delta.columnMapping.maxColumnId"] == "7"
    assert len(table.file_uris([("a b", "=", 1)])) < len(table.file_uris()) or partition_by is None


def test_an_overwritten_schema_keeps_the_names_of_equal_columns(tmp_path: Path, engine: Engine) -> None:
    """As delta-spark does: a column of another type gets an id that no column had."""
    write_deltalake(tmp_path, ROWS, configuration={"delta.columnMapping.mode": "name"}, engine=engine)
    before = physical(DeltaTable(tmp_path))
    rows = pa.table({"a b": ["now a text"], "p;q": ["x"]})
    write_deltalake(tmp_path, rows, mode="overwrite", schema_mode="overwrite", engine=engine)
    after = physical(DeltaTable(tmp_path))
    assert after["a b"][1] == 7
    assert after["a b"][0] != before["a b"][0]
    assert after["p;q"] == before["p;q"]
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == rows.to_pylist()
    assert plain(DeltaTable(tmp_path, version=0).to_pyarrow_table()) == plain(ROWS) == read_duckdb(tmp_path, 0)


def test_a_table_without_mapping_keeps_its_rules_for_names(tmp_path: Path) -> None:
    with pytest.raises(InvalidSchemaError):
        write_deltalake(tmp_path / "a", ROWS)
    with pytest.raises(InvalidArgumentError):
        write_deltalake(tmp_path / "b", ROWS, configuration={"delta.columnMapping.mode": "names"})
    write_deltalake(tmp_path / "c", pa.table({"x": [1]}))
    with pytest.raises(InvalidSchemaError):
        write_deltalake(tmp_path / "c", pa.table({"x": [1], "y=z": [1]}), mode="append", schema_mode="merge")
    assert read_delta_rs(tmp_path / "c").to_pylist() == [{"x": 1}]


def test_a_mode_that_the_protocol_does_not_list_is_not_written(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"configuration":{}', '"configuration":{"delta.columnMapping.mode":"name"}'))
    with pytest.raises(UnsupportedFeatureError, match="columnMapping"):
        write_deltalake(tmp_path, pa.table({"x": [2]}), mode="append")


def test_fields_keep_their_ids_and_names_and_new_ones_get_the_next() -> None:
    inner = Field("x", "long", metadata={"delta.columnMapping.id": 4, "delta.columnMapping.physicalName": "x"})
    bare = Field("bare", "long")  # another writer may leave out id and name: files have the column by its own name
    before = Schema([bare, Field("s", ArrayType(StructType([inner])))])
    members = StructType([Field("x", "long"), Field("y", "long")])
    named, max_id = with_physical_names(Schema([bare, Field("s", ArrayType(members)), Field("a", "long")]), 2, before)
    assert max_id == 6
    kind = named.field("s").type
    assert isinstance(kind, ArrayType)
    assert isinstance(kind.element_type, StructType)
    assert named.field("bare") == bare
    assert kind.element_type.field("x") == inner
    assert {field_id(kind.element_type.field("y")), field_id(named.field("a"))} == {5, 6}
    assert with_physical_names(named, max_id, named) == (named, max_id)


def test_a_column_without_a_physical_name_keeps_its_values_when_columns_are_added(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [1], "y": ["a"]}), configuration={"delta.columnMapping.mode": "name"})
    table = DeltaTable(tmp_path)
    stored = physical(table)["y"][0]
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace(f',\\"delta.columnMapping.physicalName\\":\\"{stored}\\"', ""))
    for checksum in tmp_path.rglob("*.crc"):
        checksum.unlink()
    (uri,) = table.file_uris()
    file = pq.read_table(uri)
    pq.write_table(file.rename_columns(["y" if name == stored else name for name in file.column_names]), uri)
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == [{"x": 1, "y": "a"}]
    more = pa.table({"x": [2], "y": ["b"], "z": [1]})
    write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
    rows = DeltaTable(tmp_path).to_pyarrow_table().sort_by("x").to_pylist()
    assert rows == [{"x": 1, "y": "a", "z": None}, {"x": 2, "y": "b", "z": 1}]


def test_ids_and_names_of_another_table_are_not_copied(tmp_path: Path) -> None:
    for name in "xy":
        write_deltalake(tmp_path / name, pa.table({name: [1]}), configuration={"delta.columnMapping.mode": "id"})
    schema = Schema([DeltaTable(tmp_path / name).schema().field(name) for name in "xy"])
    rows = pa.table({"x": [1, 2], "y": [10, 20]})
    for name, mode in (("mapped", "id"), ("unmapped", "none")):
        path = tmp_path / name
        DeltaTable.create(path, schema, configuration={"delta.columnMapping.mode": mode})
        write_deltalake(path, rows, mode="append")
        assert plain(DeltaTable(path).to_pyarrow_table()) == plain(rows) == read_duckdb(path)
    assert [dict(field.metadata) for field in DeltaTable(tmp_path / "unmapped").schema().fields] == [{}, {}]


def test_the_mode_is_spelled_as_other_engines_read_it(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1]}), configuration={"delta.columnMapping.mode": "NAME"})
    assert DeltaTable(tmp_path).metadata().configuration["delta.columnMapping.mode"] == "name"
    assert read_duckdb(tmp_path).to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_name_that_is_not_unicode_is_refused(tmp_path: Path, mode: str) -> None:
    schema = Schema([Field("s", StructType([Field("\ud800", "long")]))])
    with pytest.raises(InvalidSchemaError):
        DeltaTable.create(tmp_path, schema, configuration={"delta.columnMapping.mode": mode})


def test_a_partition_value_is_measured_by_the_folder_of_its_physical_name(tmp_path: Path, engine: Engine) -> None:
    schema = pa.schema([("p", pa.string()), ("k", pa.int64())])
    DeltaTable.create(tmp_path, schema, partition_by=["p"], configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(InvalidArgumentError) as refused:
        write_deltalake(tmp_path, pa.table({"p": ["x" * 230], "k": [1]}), mode="append", engine=engine)
    assert refused.value.code == "DELTA_INVALID_PARTITION_VALUE"
    assert "column p" in refused.value.message
