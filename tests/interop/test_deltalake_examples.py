"""The examples of the ``deltalake`` package's documentation on tables, schemas and history, with a changed import.

The same code on the same table must give the same result. The pages: loading a table, examining a table, working with
partitions, and the docstrings of ``DeltaTable`` and of the schema's classes. docs/reading.md lists the examples that do
not apply. Examples on querying are in ``test_deltalake_query_examples.py``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs
import pytest

from tests.interop.example_tables import DELTA_RS, LAKEHOUSE, Examples, rows_of

EXAMPLES = Examples()


def at(minutes: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(1_700_000_000 + 60 * minutes, dt.UTC)


# Loading a table.


@EXAMPLES.add
def the_version_of_a_table(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/letters").version()


@EXAMPLES.add
def a_table_by_its_pathlib_path(m: Any, root: str) -> Any:
    return m.DeltaTable(Path(root) / "letters").version()


@EXAMPLES.add
def the_storage_options_of_a_table(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/letters", storage_options={}).version()


@EXAMPLES.add
def whether_there_is_a_table(m: Any, root: str) -> Any:
    return m.DeltaTable.is_deltatable(f"{root}/letters"), m.DeltaTable.is_deltatable(f"{root}/none")


@EXAMPLES.add
def a_file_system_of_the_callers(m: Any, root: str) -> Any:
    path = f"{root}/days"
    filesystem = fs.SubTreeFileSystem(path, fs.LocalFileSystem())
    dataset = m.DeltaTable(path).to_pyarrow_dataset(filesystem=filesystem)
    return dataset.schema.names, rows_of(dataset.to_table().to_pandas())


@EXAMPLES.add
def a_file_system_by_its_uri(m: Any, root: str) -> Any:
    raw, normalized = fs.FileSystem.from_uri(Path(f"{root}/days").as_uri())
    filesystem = fs.SubTreeFileSystem(normalized, raw)
    return m.DeltaTable(f"{root}/days").to_pyarrow_dataset(filesystem=filesystem).count_rows()


@EXAMPLES.add
def an_old_version(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters", version=1)
    return table.version(), rows_of(table.to_pandas())


@EXAMPLES.add
def moving_to_a_version(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters")
    table.load_as_version(1)
    return table.version(), rows_of(table.to_pandas())


@EXAMPLES.add
def moving_to_a_time(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters")
    versions = []
    for moment in (at(0), at(1.5), at(2), at(1).replace(tzinfo=None)):
        table.load_as_version(moment)
        versions.append(table.version())
    return versions


@EXAMPLES.add
def moving_to_a_time_in_text(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters")
    versions = []
    east = dt.timezone(dt.timedelta(hours=-8))
    for text in (
        at(0).strftime("%Y-%m-%dT%H:%M:%SZ"),
        at(1.5).astimezone(east).isoformat(),
        at(1.99).isoformat(timespec="milliseconds"),
    ):
        table.load_as_version(text)
        versions.append(table.version())
    return versions


@EXAMPLES.add
def invalid_versions(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters")
    failed = []
    for version in (99, "no time"):
        try:
            table.load_as_version(version)
        except Exception:
            failed.append(version)
    return failed, table.version()


@EXAMPLES.add
def back_to_the_latest_version(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters", version=0)
    table.update_incremental()
    return table.version()


@EXAMPLES.add
def a_table_that_is_not_there(m: Any, root: str) -> Any:
    try:
        m.DeltaTable(f"{root}/none")
    except Exception as error:
        return type(error).__name__


# Examining a table.


@EXAMPLES.add
def metadata(m: Any, root: str) -> Any:
    table_metadata = m.DeltaTable(f"{root}/letters").metadata()
    shown = (
        table_metadata.id,
        table_metadata.name,
        table_metadata.description,
        table_metadata.partition_columns,
        table_metadata.created_time,
        table_metadata.configuration,
    )
    return str(table_metadata), shown


@EXAMPLES.add
def the_protocol(m: Any, root: str) -> Any:
    protocol = m.DeltaTable(f"{root}/feed").protocol()
    return tuple(protocol), protocol.min_reader_version, protocol.min_writer_version, protocol.writer_features


@EXAMPLES.add
def the_schema(m: Any, root: str) -> Any:
    schema = m.DeltaTable(f"{root}/letters").schema()
    return repr(schema), [(field.name, field.type.type, field.nullable, field.metadata) for field in schema.fields]


@EXAMPLES.add
def the_schema_as_json(m: Any, root: str) -> Any:
    schema = m.DeltaTable(f"{root}/letters").schema()
    text = schema.to_json()
    return text, m.Schema.from_json(text) == schema


@EXAMPLES.add
def the_schema_in_arrow(m: Any, root: str) -> Any:
    schema = m.DeltaTable(f"{root}/days").schema()
    return pa.schema(schema.to_arrow()), pa.schema(schema), pa.schema(schema.to_arrow(as_large_types=True))


@EXAMPLES.add
def a_schema_from_arrow(m: Any, root: str) -> Any:
    return repr(m.Schema.from_arrow(pa.schema([("x", pa.int32()), ("y", pa.list_(pa.string()))])))


@EXAMPLES.add
def the_history(m: Any, root: str) -> Any:
    # Their timestamp is the commitInfo's; ours is the commit's time, which time travel uses.
    shown = m.DeltaTable(f"{root}/feed").history()
    return [{name: value for name, value in commit.items() if name != "timestamp"} for commit in shown]


@EXAMPLES.add
def the_end_of_the_history(m: Any, root: str) -> Any:
    return [(entry["version"], entry["operation"]) for entry in m.DeltaTable(f"{root}/feed").history(2)]


@EXAMPLES.add
def the_history_since_a_time(m: Any, root: str) -> Any:
    operations = []
    for commit in m.DeltaTable(f"{root}/feed").history():
        if commit["timestamp"] < 1_000_000_000_000:
            break
        operations.append(commit["operation"])
    return operations


@EXAMPLES.add
def add_actions(m: Any, root: str) -> Any:
    actions = m.DeltaTable(f"{root}/days").get_add_actions()
    return sorted(actions.column("path").to_pylist()), rows_of(pa.table(actions).to_pandas())


@EXAMPLES.add
def add_actions_flat(m: Any, root: str) -> Any:
    flat = pa.table(m.DeltaTable(f"{root}/days").get_add_actions(flatten=True))
    return flat.schema, rows_of(flat.to_pandas()), sorted(flat.column("partition.year").to_pylist())


@EXAMPLES.add
def add_actions_of_an_old_version(m: Any, root: str) -> Any:
    return pa.table(m.DeltaTable(f"{root}/letters", version=0).get_add_actions(flatten=True)).to_pylist()


@EXAMPLES.add
def add_actions_as_one_batch(m: Any, root: str) -> Any:
    table = pa.table(m.DeltaTable(f"{root}/letters").get_add_actions(flatten=True)).combine_chunks()
    (batch,) = table.to_batches(max_chunksize=None)
    return batch.schema, batch.to_pylist()


@EXAMPLES.add
def the_count(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/letters").count()


@EXAMPLES.add
def an_applications_version(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/letters").transaction_version("nobody")


# Files and partitions.


@EXAMPLES.add
def file_uris(m: Any, root: str) -> Any:
    return sorted(m.DeltaTable(f"{root}/days").file_uris())


@EXAMPLES.add
def file_uris_by_sql(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/days")
    conditions = ("year = '2021' AND (month = '12' OR day > '15')", "year BETWEEN '2020' AND '2020'", "day IS NULL")
    return [sorted(table.file_uris(file_pruning_predicate=sql)) for sql in conditions]


@EXAMPLES.add
def file_uris_by_filters(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/days")
    both = [("year", "=", "2021"), ("month", "=", "12")]
    either = [[("year", "=", "2021")], [("year", "=", "2020"), ("month", ">=", "10")]]
    among = [("month", "in", ["1", "4"])]
    outside = [("month", "not in", ("1", "4"))]
    return [sorted(table.file_uris(file_pruning_predicate=filters)) for filters in (both, either, among, outside)]


@EXAMPLES.add
def file_uris_by_a_data_column(m: Any, root: str) -> Any:
    return sorted(m.DeltaTable(f"{root}/days").file_uris(file_pruning_predicate=[("value", ">", "5")]))


@EXAMPLES.add
def partitions(m: Any, root: str) -> Any:
    return sorted(m.DeltaTable(f"{root}/days").partitions(), key=lambda partition: sorted(partition.items()))


@EXAMPLES.add
def partitions_by_a_condition(m: Any, root: str) -> Any:
    matches = m.DeltaTable(f"{root}/days").partitions(file_pruning_predicate="year = '2020'")
    return sorted(matches, key=lambda partition: sorted(partition.items()))


@EXAMPLES.add
def the_partition_columns(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/days").metadata().partition_columns


# The docstrings of the schema's classes.


@EXAMPLES.add
def primitive_types(m: Any, root: str) -> Any:
    kinds = [m.PrimitiveType(name) for name in ("integer", "string", "decimal(10,2)", "timestamp_ntz", "binary")]
    return [(repr(kind), kind.to_json(), m.PrimitiveType.from_json(kind.to_json()) == kind) for kind in kinds]


@EXAMPLES.add
def array_types(m: Any, root: str) -> Any:
    kinds = [m.ArrayType(m.PrimitiveType("integer")), m.ArrayType("integer", contains_null=False)]
    return [(repr(kind), kind.type, repr(kind.element_type), kind.contains_null, kind.to_json()) for kind in kinds]


@EXAMPLES.add
def array_types_from_json(m: Any, root: str) -> Any:
    return repr(m.ArrayType.from_json('{"type": "array", "elementType": "integer", "containsNull": false}'))


@EXAMPLES.add
def map_types(m: Any, root: str) -> Any:
    kinds = [
        m.MapType(m.PrimitiveType("integer"), m.PrimitiveType("string")),
        m.MapType("integer", "string", value_contains_null=False),
    ]
    shown = [(repr(kind), repr(kind.key_type), repr(kind.value_type), kind.value_contains_null) for kind in kinds]
    return shown, [kind.to_json() for kind in kinds], [m.MapType.from_json(kind.to_json()) == kind for kind in kinds]


@EXAMPLES.add
def fields(m: Any, root: str) -> Any:
    plain = m.Field("my_int_col", "integer")
    # For a nested value delta-rs 1.6.6 returns the JSON, contrary to its documentation.
    noted = m.Field("my_col", "integer", metadata={"custom_metadata": 2})
    text = '{"name": "col", "type": "integer", "nullable": true, "metadata": {}}'
    shown = [(repr(field), field.name, repr(field.type), field.nullable, field.metadata) for field in (plain, noted)]
    return shown, plain.to_json(), repr(m.Field.from_json(text)), pa.field(plain.to_arrow())


@EXAMPLES.add
def struct_types(m: Any, root: str) -> Any:
    struct = m.StructType([m.Field("x", "integer"), m.Field("y", "string")])
    return repr(struct), struct.to_json(), m.StructType.from_json(struct.to_json()) == struct, repr(struct.fields)


@EXAMPLES.add
def schemas(m: Any, root: str) -> Any:
    schema = m.Schema([m.Field("x", "integer")])
    return repr(schema), schema.to_json(), repr(m.Schema.from_json(schema.to_json()))


@EXAMPLES.add
def types_in_arrow(m: Any, root: str) -> Any:
    field = m.Field("s", m.StructType([m.Field("a", m.MapType("string", m.ArrayType("date")))]))
    return pa.schema(m.Schema([field]).to_arrow()).field("s").type


@EXAMPLES.add
def types_from_arrow(m: Any, root: str) -> Any:
    arrow: Iterable[pa.DataType] = (pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
    return [repr(m.PrimitiveType.from_arrow(kind)) for kind in arrow]


@EXAMPLES.add
def an_empty_table(m: Any, root: str) -> Any:
    schema = pa.schema([pa.field("foo", pa.string()), pa.field("bar", pa.string())])
    uri = f"{root}/created by {m.DeltaTable.__module__}"
    table = m.DeltaTable.create(table_uri=uri, schema=schema, mode="error", partition_by="bar")
    return table.version(), repr(table.schema()), table.metadata().partition_columns, table.file_uris()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.filterwarnings("ignore:.*is deprecated; use `filters`:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:`partitions` is deprecated:DeprecationWarning")
def test_the_same_code_gives_the_same_result(name: str, tables: Path) -> None:
    our_result, delta_rs_result = (EXAMPLES[name](m, str(tables)) for m in (LAKEHOUSE, DELTA_RS))
    assert our_result == delta_rs_result
