"""The examples of the ``deltalake`` package's documentation on reading, schemas and history, with a changed import.

The same code on the same table must give the same result. The pages: loading a table, examining a table, querying
tables, working with partitions, reading the change data feed, the integrations (Arrow, pandas, Polars, Dask,
DataFusion), the upgrade guide, and the docstrings of ``DeltaTable`` and of the schema's classes. docs/reading.md lists
the examples that do not apply.
"""

from __future__ import annotations

import datetime as dt
import importlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pytest

Example = Callable[[Any, str], Any]
EXAMPLES: dict[str, Example] = {}


def package(name: str, schema: str) -> Any:
    """The imports of an example, from either package."""
    return SimpleNamespace(**vars(importlib.import_module(schema)) | public(importlib.import_module(name)))


def public(module: Any) -> dict[str, Any]:
    return {name: getattr(module, name) for name in module.__all__}


DELTA_RS = package("deltalake", "deltalake.schema")
LAKEHOUSE = package("lakehouse_lib", "lakehouse_lib.schema")


def example(function: Example) -> Example:
    EXAMPLES[function.__name__] = function
    return function


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``letters``: created, appended to, overwritten. ``days``: in folders of year, month and day. ``feed``: with a
    change data feed. There is one commit a minute, so that times differ.
    """
    root = tmp_path_factory.mktemp("examples")
    letters = str(root / "letters")
    for mode, numbers, shown in (
        ("error", [1, 2, 3], ["a", "b", "c"]),
        ("append", [8, 9], ["dd", "ee"]),
        ("overwrite", [11, 22], ["aa", "bb"]),
    ):
        rows = pd.DataFrame({"num": numbers, "letter": shown})
        DELTA_RS.write_deltalake(letters, rows, mode=mode, name="letters", description="numbers and letters")
    days = pa.table(
        {
            "value": ["1", "2", "3", "6", "7", "5", "4"],
            "year": ["2020", "2020", "2020", "2021", "2021", "2021", "2021"],
            "month": ["1", "2", "2", "12", "12", "12", "4"],
            "day": ["1", "3", "5", "20", "20", "4", "5"],
        }
    )
    DELTA_RS.write_deltalake(str(root / "days"), days, partition_by=["year", "month", "day"])
    feed = str(root / "feed")
    on = {"delta.enableChangeDataFeed": "true"}
    DELTA_RS.write_deltalake(feed, pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", "c", "d"]}), configuration=on)
    DELTA_RS.DeltaTable(feed).update(updates={"name": "'z'"}, predicate="id > 2")
    DELTA_RS.DeltaTable(feed).delete("id = 1")
    DELTA_RS.write_deltalake(feed, pa.table({"id": [5], "name": ["e"]}), mode="append")
    for log in root.glob("*/_delta_log"):
        for version, commit in enumerate(sorted(log.glob("0*.json"))):
            os.utime(commit, (1_700_000_000 + 60 * version,) * 2)
    return root


def at(minutes: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(1_700_000_000 + 60 * minutes, dt.UTC)


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Sorted rows, because neither package guarantees an order."""
    return sorted(frame.to_dict("records"), key=str)


# Loading a table.


@example
def the_version_of_a_table(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/letters").version()


@example
def a_table_by_its_pathlib_path(m: Any, root: str) -> Any:
    return m.DeltaTable(Path(root) / "letters").version()


@example
def the_storage_options_of_a_table(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/letters", storage_options={}).version()


@example
def whether_there_is_a_table(m: Any, root: str) -> Any:
    return m.DeltaTable.is_deltatable(f"{root}/letters"), m.DeltaTable.is_deltatable(f"{root}/none")


@example
def a_file_system_of_the_callers(m: Any, root: str) -> Any:
    path = f"{root}/days"
    filesystem = fs.SubTreeFileSystem(path, fs.LocalFileSystem())
    dataset = m.DeltaTable(path).to_pyarrow_dataset(filesystem=filesystem)
    return dataset.schema.names, rows_of(dataset.to_table().to_pandas())


@example
def a_file_system_by_its_uri(m: Any, root: str) -> Any:
    raw, normalized = fs.FileSystem.from_uri(Path(f"{root}/days").as_uri())
    filesystem = fs.SubTreeFileSystem(normalized, raw)
    return m.DeltaTable(f"{root}/days").to_pyarrow_dataset(filesystem=filesystem).count_rows()


@example
def an_old_version(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters", version=1)
    return table.version(), rows_of(table.to_pandas())


@example
def moving_to_a_version(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters")
    table.load_as_version(1)
    return table.version(), rows_of(table.to_pandas())


@example
def moving_to_a_time(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters")
    versions = []
    for moment in (at(0), at(1.5), at(2), at(1).replace(tzinfo=None)):
        table.load_as_version(moment)
        versions.append(table.version())
    return versions


@example
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


@example
def what_is_no_version(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters")
    failed = []
    for version in (99, "no time"):
        try:
            table.load_as_version(version)
        except Exception:
            failed.append(version)
    return failed, table.version()


@example
def back_to_the_latest_version(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/letters", version=0)
    table.update_incremental()
    return table.version()


@example
def a_table_that_is_not_there(m: Any, root: str) -> Any:
    try:
        m.DeltaTable(f"{root}/none")
    except Exception as error:
        return type(error).__name__


# Examining a table.


@example
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


@example
def the_protocol(m: Any, root: str) -> Any:
    protocol = m.DeltaTable(f"{root}/feed").protocol()
    return tuple(protocol), protocol.min_reader_version, protocol.min_writer_version, protocol.writer_features


@example
def the_schema(m: Any, root: str) -> Any:
    schema = m.DeltaTable(f"{root}/letters").schema()
    return repr(schema), [(field.name, field.type.type, field.nullable, field.metadata) for field in schema.fields]


@example
def the_schema_as_json(m: Any, root: str) -> Any:
    schema = m.DeltaTable(f"{root}/letters").schema()
    text = schema.to_json()
    return text, m.Schema.from_json(text) == schema


@example
def the_schema_in_arrow(m: Any, root: str) -> Any:
    schema = m.DeltaTable(f"{root}/days").schema()
    return pa.schema(schema.to_arrow()), pa.schema(schema), pa.schema(schema.to_arrow(as_large_types=True))


@example
def a_schema_from_arrow(m: Any, root: str) -> Any:
    return repr(m.Schema.from_arrow(pa.schema([("x", pa.int32()), ("y", pa.list_(pa.string()))])))


@example
def the_history(m: Any, root: str) -> Any:
    # Their timestamp is the commitInfo's; ours is the commit's time, which time travel uses.
    shown = m.DeltaTable(f"{root}/feed").history()
    return [{name: value for name, value in commit.items() if name != "timestamp"} for commit in shown]


@example
def the_end_of_the_history(m: Any, root: str) -> Any:
    return [(entry["version"], entry["operation"]) for entry in m.DeltaTable(f"{root}/feed").history(2)]


@example
def the_history_since_a_time(m: Any, root: str) -> Any:
    operations = []
    for commit in m.DeltaTable(f"{root}/feed").history():
        if commit["timestamp"] < 1_000_000_000_000:
            break
        operations.append(commit["operation"])
    return operations


@example
def add_actions(m: Any, root: str) -> Any:
    actions = m.DeltaTable(f"{root}/days").get_add_actions()
    return sorted(actions.column("path").to_pylist()), rows_of(pa.table(actions).to_pandas())


@example
def add_actions_flat(m: Any, root: str) -> Any:
    flat = pa.table(m.DeltaTable(f"{root}/days").get_add_actions(flatten=True))
    return flat.schema, rows_of(flat.to_pandas()), sorted(flat.column("partition.year").to_pylist())


@example
def add_actions_of_an_old_version(m: Any, root: str) -> Any:
    return pa.table(m.DeltaTable(f"{root}/letters", version=0).get_add_actions(flatten=True)).to_pylist()


@example
def add_actions_as_one_batch(m: Any, root: str) -> Any:
    table = pa.table(m.DeltaTable(f"{root}/letters").get_add_actions(flatten=True)).combine_chunks()
    (batch,) = table.to_batches(max_chunksize=None)
    return batch.schema, batch.to_pylist()


@example
def the_count(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/letters").count()


@example
def an_applications_version(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/letters").transaction_version("nobody")


# Files and partitions.


@example
def file_uris(m: Any, root: str) -> Any:
    return sorted(m.DeltaTable(f"{root}/days").file_uris())


@example
def file_uris_by_sql(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/days")
    conditions = ("year = '2021' AND (month = '12' OR day > '15')", "year BETWEEN '2020' AND '2020'", "day IS NULL")
    return [sorted(table.file_uris(file_pruning_predicate=sql)) for sql in conditions]


@example
def file_uris_by_filters(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/days")
    both = [("year", "=", "2021"), ("month", "=", "12")]
    either = [[("year", "=", "2021")], [("year", "=", "2020"), ("month", ">=", "10")]]
    among = [("month", "in", ["1", "4"])]
    outside = [("month", "not in", ("1", "4"))]
    return [sorted(table.file_uris(file_pruning_predicate=filters)) for filters in (both, either, among, outside)]


@example
def file_uris_by_a_data_column(m: Any, root: str) -> Any:
    return sorted(m.DeltaTable(f"{root}/days").file_uris(file_pruning_predicate=[("value", ">", "5")]))


@example
def partitions(m: Any, root: str) -> Any:
    return sorted(m.DeltaTable(f"{root}/days").partitions(), key=lambda partition: sorted(partition.items()))


@example
def partitions_by_a_condition(m: Any, root: str) -> Any:
    matches = m.DeltaTable(f"{root}/days").partitions(file_pruning_predicate="year = '2020'")
    return sorted(matches, key=lambda partition: sorted(partition.items()))


@example
def the_partition_columns(m: Any, root: str) -> Any:
    return m.DeltaTable(f"{root}/days").metadata().partition_columns


# Querying.


@example
def pandas_of_a_partition(m: Any, root: str) -> Any:
    return rows_of(m.DeltaTable(f"{root}/days").to_pandas(filters=[("year", "=", "2021")], columns=["value"]))


@example
def pandas_by_the_older_name_of_filters(m: Any, root: str) -> Any:
    return rows_of(m.DeltaTable(f"{root}/days").to_pandas(partitions=[("year", "=", "2021")], columns=["value"]))


@example
def pandas_with_types_of_the_callers(m: Any, root: str) -> Any:
    frame = m.DeltaTable(f"{root}/letters").to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return frame.dtypes.to_dict(), rows_of(frame)


@example
def an_arrow_table_of_a_partition(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/days").to_pyarrow_table(filters=[("year", "=", "2021")], columns=["value"])
    return table.schema, sorted(table["value"].to_pylist())


@example
def an_arrow_table_by_alternatives(m: Any, root: str) -> Any:
    either = [[("year", "=", "2020"), ("value", "<", "2")], [("value", ">", "6")]]
    return sorted(m.DeltaTable(f"{root}/days").to_pyarrow_table(filters=either)["value"].to_pylist())


@example
def an_arrow_table_by_an_expression(m: Any, root: str) -> Any:
    condition = (ds.field("year") == "2021") & (ds.field("value") > "4")
    return sorted(m.DeltaTable(f"{root}/days").to_pyarrow_table(filters=condition)["value"].to_pylist())


@example
def a_dataset_by_an_expression(m: Any, root: str) -> Any:
    condition = (ds.field("year") == "2021") & (ds.field("value") > "4")
    dataset = m.DeltaTable(f"{root}/days").to_pyarrow_dataset()
    return rows_of(dataset.to_table(filter=condition, columns=["value"]).to_pandas())


@example
def a_dataset_batch_by_batch(m: Any, root: str) -> Any:
    condition = (ds.field("year") == "2021") & (ds.field("value") > "4")
    dataset = m.DeltaTable(f"{root}/days").to_pyarrow_dataset()
    batches = dataset.to_batches(filter=condition, columns=["value"], batch_size=2)
    return sorted(value for batch in batches for value in batch.to_pydict()["value"])


@example
def a_dataset_pruned_before(m: Any, root: str) -> Any:
    dataset = m.DeltaTable(f"{root}/days").to_pyarrow_dataset(file_pruning_predicate="year = '2021'")
    return rows_of(dataset.to_table(columns=["value"]).to_pandas())


@example
def a_dataset_of_large_types(m: Any, root: str) -> Any:
    dataset = m.DeltaTable(f"{root}/days").to_pyarrow_dataset(as_large_types=True)
    return dataset.schema.types, rows_of(dataset.to_table().to_pandas())


@example
def duckdb_over_a_dataset(m: Any, root: str) -> Any:
    relation = duckdb.arrow(m.DeltaTable(f"{root}/days").to_pyarrow_dataset())
    return sorted(relation.filter("year = '2021' and value > '4'").project("value").fetchall())


@example
def duckdb_over_an_arrow_table(m: Any, root: str) -> Any:
    return sorted(duckdb.arrow(m.DeltaTable(f"{root}/letters").to_pyarrow_table()).filter("num > 11").fetchall())


@example
def rows_as_a_stream(m: Any, root: str) -> Any:
    reader = m.DeltaTable(f"{root}/days").scan(columns=["value"], predicate="year = '2021'")
    return sorted(value for batch in reader for value in pa.record_batch(batch).to_pydict()["value"])


@example
def polars_of_an_arrow_table(m: Any, root: str) -> Any:
    frame = pl.DataFrame(m.DeltaTable(f"{root}/letters").to_pyarrow_table())
    return frame.filter(pl.col("num") > 11).rows()


@example
def polars_over_a_dataset(m: Any, root: str) -> Any:
    lazy = pl.scan_pyarrow_dataset(m.DeltaTable(f"{root}/days").to_pyarrow_dataset())
    frame = lazy.filter(pl.col("year") < "2021").group_by("year", "month").agg(pl.len()).collect()
    return sorted(frame.rows())


@example
def pandas_goes_on_with_a_query(m: Any, root: str) -> Any:
    frame = m.DeltaTable(f"{root}/days", version=0).to_pandas(filters=[("year", "==", "2021")], columns=["month"])
    return frame.groupby("month").agg({"month": "count"}).to_dict()


@example
def pandas_of_every_version(m: Any, root: str) -> Any:
    return [rows_of(m.DeltaTable(f"{root}/letters", version=number).to_pandas()) for number in (0, 1, 2)]


# The change data feed. The kinds of Arrow types differ (see docs/reading.md), the values do not.


def changes(reader: Any) -> list[tuple[Any, ...]]:
    table = pa.table(reader)
    return sorted(tuple(row[name] for name in sorted(row) if name != "_commit_timestamp") for row in table.to_pylist())


@example
def the_feed_of_some_versions(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/feed").load_cdf(starting_version=0, ending_version=3).read_all()
    counted = pl.from_arrow(pa.table(table)).group_by("_commit_version").len().sort("len", descending=True)
    return sorted(counted.rows())


@example
def the_whole_feed(m: Any, root: str) -> Any:
    return changes(m.DeltaTable(f"{root}/feed").load_cdf())


@example
def the_feed_in_polars(m: Any, root: str) -> Any:
    return sorted(pl.DataFrame(m.DeltaTable(f"{root}/feed").load_cdf(columns=["id", "_change_type"])).rows())


@example
def the_feed_by_columns_and_predicate(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/feed")
    return changes(table.load_cdf(1, columns=["id", "_change_type"], predicate="_change_type = 'delete' OR id = 5"))


@example
def the_feed_out_of_range(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/feed")
    try:
        table.load_cdf(starting_version=99)
    except Exception:
        return changes(table.load_cdf(starting_version=99, allow_out_of_range=True))
    return "no error"


# The docstrings of the schema's classes.


@example
def primitive_types(m: Any, root: str) -> Any:
    kinds = [m.PrimitiveType(name) for name in ("integer", "string", "decimal(10,2)", "timestamp_ntz", "binary")]
    return [(repr(kind), kind.to_json(), m.PrimitiveType.from_json(kind.to_json()) == kind) for kind in kinds]


@example
def array_types(m: Any, root: str) -> Any:
    kinds = [m.ArrayType(m.PrimitiveType("integer")), m.ArrayType("integer", contains_null=False)]
    return [(repr(kind), kind.type, repr(kind.element_type), kind.contains_null, kind.to_json()) for kind in kinds]


@example
def array_types_from_json(m: Any, root: str) -> Any:
    return repr(m.ArrayType.from_json('{"type": "array", "elementType": "integer", "containsNull": false}'))


@example
def map_types(m: Any, root: str) -> Any:
    kinds = [
        m.MapType(m.PrimitiveType("integer"), m.PrimitiveType("string")),
        m.MapType("integer", "string", value_contains_null=False),
    ]
    shown = [(repr(kind), repr(kind.key_type), repr(kind.value_type), kind.value_contains_null) for kind in kinds]
    return shown, [kind.to_json() for kind in kinds], [m.MapType.from_json(kind.to_json()) == kind for kind in kinds]


@example
def fields(m: Any, root: str) -> Any:
    plain = m.Field("my_int_col", "integer")
    # For a nested value delta-rs 1.6.6 returns the JSON, contrary to its documentation.
    noted = m.Field("my_col", "integer", metadata={"custom_metadata": 2})
    text = '{"name": "col", "type": "integer", "nullable": true, "metadata": {}}'
    shown = [(repr(field), field.name, repr(field.type), field.nullable, field.metadata) for field in (plain, noted)]
    return shown, plain.to_json(), repr(m.Field.from_json(text)), pa.field(plain.to_arrow())


@example
def struct_types(m: Any, root: str) -> Any:
    struct = m.StructType([m.Field("x", "integer"), m.Field("y", "string")])
    return repr(struct), struct.to_json(), m.StructType.from_json(struct.to_json()) == struct, repr(struct.fields)


@example
def schemas(m: Any, root: str) -> Any:
    schema = m.Schema([m.Field("x", "integer")])
    return repr(schema), schema.to_json(), repr(m.Schema.from_json(schema.to_json()))


@example
def types_in_arrow(m: Any, root: str) -> Any:
    field = m.Field("s", m.StructType([m.Field("a", m.MapType("string", m.ArrayType("date")))]))
    return pa.schema(m.Schema([field]).to_arrow()).field("s").type


@example
def types_from_arrow(m: Any, root: str) -> Any:
    arrow: Iterable[pa.DataType] = (pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
    return [repr(m.PrimitiveType.from_arrow(kind)) for kind in arrow]


@example
def an_empty_table(m: Any, root: str) -> Any:
    schema = pa.schema([pa.field("foo", pa.string()), pa.field("bar", pa.string())])
    uri = f"{root}/created by {m.DeltaTable.__module__}"
    table = m.DeltaTable.create(table_uri=uri, schema=schema, mode="error", partition_by="bar")
    return table.version(), repr(table.schema()), table.metadata().partition_columns, table.file_uris()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.filterwarnings("ignore:.*is deprecated; use `filters`:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:`partitions` is deprecated:DeprecationWarning")
def test_the_same_code_gives_the_same(name: str, tables: Path) -> None:
    our_result, delta_rs_result = (EXAMPLES[name](m, str(tables)) for m in (LAKEHOUSE, DELTA_RS))
    assert our_result == delta_rs_result
