"""A program that changes one import: the same calls on the same table give the same results and errors as deltalake."""

from __future__ import annotations

import datetime as dt
import importlib
import itertools
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs
import pytest

import lakehouse_lib
import lakehouse_lib.fs
from tests.table_copies import CopyOf

Package = Any
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "a b": ["x", "y", None, "z"],
        "p.q": [1.5, 2.5, 3.5, None],
        "at": pa.array([dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3, 4)], pa.timestamp("us", "UTC")),
        "part": ["a", "a", "b", None],
    }
)
TIMES = ["2000-01-01T00:00:00Z", "2100-01-01T00:00:00+02:00", "2024-01-01t00:00:00.123456789z"]


def build(path: Path) -> None:
    deltalake.write_deltalake(path, ROWS, partition_by=["part"])
    deltalake.write_deltalake(path, ROWS, mode="append")
    deltalake.DeltaTable(path).delete("id = 1")
    for version in range(3):
        moment = dt.datetime(2024, 1, 10 * version + 1, tzinfo=dt.UTC).timestamp()
        os.utime(path / f"_delta_log/{version:020}.json", (moment, moment))


@pytest.fixture
def root(tmp_path: Path, copy_of: CopyOf) -> str:
    return str(copy_of(build, tmp_path / "t"))


def plain(value: Any) -> Any:
    """The result as Python values, which both packages give: Arrow data as sorted rows, tuples as lists."""
    if hasattr(value, "__arrow_c_stream__"):
        value = pa.table(value)
    if isinstance(value, pa.Table):
        return [value.schema.remove_metadata(), *sorted(map(repr, value.to_pylist()))]
    if hasattr(value, "__arrow_c_schema__"):
        return pa.schema(value)
    if isinstance(value, pd.DataFrame):
        return [value.dtypes.to_dict(), *sorted(map(repr, value.to_dict("records")))]
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def outcome(package: Package, call: Callable[[Package, str], Any], root: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return plain(call(package, root)), None
        except Exception as error:
            return None, error


def assert_same(call: Callable[[Package, str], Any], root: str) -> None:
    (value, error), (our_value, our_error) = (outcome(package, call, root) for package in (deltalake, lakehouse_lib))
    if error is None or our_error is None:
        assert our_error is error is None
        assert our_value == value
        return
    name = type(error).__name__
    expected = getattr(lakehouse_lib, name, None) or getattr(importlib.import_module("builtins"), name, None)
    expected = expected or next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
    assert isinstance(our_error, expected), (error, our_error)
    assert expected is not Exception


def loaded(version: Any) -> Callable[[Package, str], Any]:
    def call(package: Package, root: str) -> Any:
        table = package.DeltaTable(root)
        table.load_as_version(version)
        return table.version()

    return call


def table_call(method: str, *args: Any, **kwargs: Any) -> Callable[[Package, str], Any]:
    return lambda package, root: getattr(package.DeltaTable(root), method)(*args, **kwargs)


def local(root: str) -> pyarrow.fs.FileSystem:
    return pyarrow.fs.SubTreeFileSystem(root, pyarrow.fs.LocalFileSystem())


@pytest.mark.parametrize(
    "version",
    [
        *(0, 2, 99, None, 1.5, b"1", dt.date(2024, 1, 1), "no time", "2024-02-30T00:00:00Z"),
        *TIMES,
        *(dt.datetime(2024, 1, day, hour) for day in (1, 5, 12, 21, 30) for hour in (0, 1)),
        *(dt.datetime(year, 1, 1, tzinfo=dt.UTC) for year in (1, 1999, 2100, 9999)),
    ],
    ids=repr,
)
def test_load_as_version(root: str, version: Any) -> None:
    assert_same(loaded(version), root)


def test_a_time_before_commits_that_were_cleaned_up_is_still_an_error(root: str) -> None:
    deltalake.DeltaTable(root).create_checkpoint()
    (Path(root) / "_delta_log/00000000000000000000.json").unlink()
    with pytest.raises(lakehouse_lib.VersionNotFoundError):
        lakehouse_lib.DeltaTable(root).load_as_version(dt.datetime(2000, 1, 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda package, root: package.DeltaTable(f"{root}/none"),
        lambda package, root: package.DeltaTable(root, version=99),
        lambda package, root: package.DeltaTable(root, 1, None, True, 5, True).version(),
        lambda package, root: package.DeltaTable.create(root, ROWS.schema),
        lambda package, root: package.DeltaTable.create(root, ROWS.schema, "append"),
        lambda package, root: package.DeltaTable.create(f"{root}/new", 5),
        lambda package, root: package.DeltaTable.create(f"{root}/new", ROWS.schema, partition_by=["none"]),
        lambda package, root: package.DeltaTable.create(f"{root}/new", ROWS.schema, configuration={"delta.none": "1"}),
        lambda package, root: package.write_deltalake(root, ROWS),
        lambda package, root: package.write_deltalake(root, pa.table({"id": ["a"]}), mode="append"),
        lambda package, root: package.DeltaTable(root).vacuum(-1),
        lambda package, root: package.DeltaTable(root).vacuum(1),
        lambda package, root: package.DeltaTable(root).vacuum(0, keep_versions=[77], enforce_retention_duration=False),
        lambda package, root: package.DeltaTable(root).delete("none = 1"),
        lambda package, root: package.DeltaTable(root).delete("id = = 1"),
        lambda package, root: package.DeltaTable(root).update(),
        lambda package, root: package.DeltaTable(root).scan(columns=["none"]),
        lambda package, root: package.DeltaTable(root).scan(predicate="none = 1"),
        lambda package, root: package.DeltaTable(root).to_pyarrow_table(columns=["none"]),
        lambda package, root: package.DeltaTable(root).to_pyarrow_dataset(filesystem="file:///"),
    ],
)
def test_calls_that_fail_and_odd_arguments(root: str, call: Callable[[Package, str], Any]) -> None:
    assert_same(call, root)


def test_create_keeps_unknown_properties_if_asked(tmp_path: Path) -> None:
    def call(package: Package, root: str) -> Any:
        table = package.DeltaTable.create(
            f"{root}/{package.__name__}",
            ROWS.schema,
            configuration={"delta.none": "1", "owner": "me"},
            raise_if_key_not_exists=False,
        )
        return table.metadata().configuration

    assert_same(call, str(tmp_path))


FILTERS = [
    *([("part", operator, value)] for operator, value in itertools.product(("=", "!=", "<", ">="), ("a", ""))),
    [("part", "in", ["a", "b"])],
    [("part", "not in", ("a",))],
    [("id", ">", 3)],
    [("a b", "=", "x")],
    [("at", ">", dt.datetime(2024, 1, 3, tzinfo=dt.UTC))],
    [[("part", "=", "a")], [("id", "=", 4)]],
    [[]],
    [("part", "=", "a"), [("id", "=", 1)]],
    [("part", "=")],
    [("none", "=", "a")],
    [("part", "=>", "a")],
]
CONDITIONS = ["part = 'a'", "\"a b\" = 'x'", "part IS NULL", "id >", "none = 1"]


@pytest.mark.parametrize(
    "filters", [*FILTERS, "part = 'a'", "\"a b\" = 'x'", "part IS NULL", "id >", "none = 1"], ids=str
)
@pytest.mark.parametrize("method", ["file_uris", "partitions"])
def test_files_by_condition(root: str, method: str, filters: Any) -> None:
    get = table_call(method, file_pruning_predicate=filters)
    assert_same(lambda package, root: sorted(map(repr, get(package, root))), root)


@pytest.mark.parametrize(
    "call",
    [
        lambda table, root: table.to_pyarrow_table(),
        lambda table, root: table.to_pyarrow_table(None, ["part", "id"], local(root)),
        lambda table, root: table.to_pyarrow_table(filesystem=local(root), filters=[("id", ">", 2), ("a b", "=", "z")]),
        lambda table, root: table.to_pyarrow_table(columns=["a b"], filters=pads.field("p.q") > 2),
        lambda table, root: table.to_pyarrow_table(filesystem=local(root), filters=pads.field("p.q") > 2),
        lambda table, root: table.to_pandas(None, ["id"], local(root)),
        lambda table, root: table.to_pandas(types_mapper=pd.ArrowDtype),
        lambda table, root: table.to_pyarrow_dataset().schema,
        lambda table, root: table.to_pyarrow_dataset(as_large_types=True).to_table(),
        lambda table, root: table.to_pyarrow_dataset(filesystem=local(root)).to_table(filter=pads.field("id") == 4),
        lambda table, root: table.to_pyarrow_dataset(
            parquet_read_options=pads.ParquetReadOptions(dictionary_columns={"a b"})
        ).to_table(),
        lambda table, root: table.to_pyarrow_dataset(schema=pa.schema([("part", pa.large_string())])).to_table(),
        lambda table, root: sorted(table.to_pyarrow_dataset(file_pruning_predicate="part = 'a'").files),
        lambda table, root: table.count(),
        lambda table, root: [table.metadata().configuration, table.metadata().partition_columns, table.protocol()],
        lambda table, root: table.schema().to_json(),
        lambda table, root: pa.schema(table.schema()),
        lambda table, root: repr(table.schema()),
        lambda table, root: table.deletion_vectors().read_all(),
        lambda table, root: table.transaction_version("none"),
        lambda table, root: table.history(0),
    ],
)
def test_reads(root: str, call: Callable[[Any, str], Any]) -> None:
    assert_same(lambda package, root: call(package.DeltaTable(root), root), root)


@pytest.mark.parametrize(
    "condition",
    [
        *(pads.field("id") > 3, pads.field("id") <= 1, pads.field("a b").is_null(), pads.field("a b").is_valid()),
        *(pads.field("part") < "b", pads.field("part").is_null(), pads.field("a b") == "z"),
        *(pads.field("at") >= pa.scalar(dt.datetime(2024, 1, 4, tzinfo=dt.UTC)), ~(pads.field("id") == 3)),
    ],
    ids=str,
)
def test_a_dataset_skips_the_same_files(root: str, condition: pads.Expression) -> None:
    def call(package: Package, root: str) -> Any:
        dataset = package.DeltaTable(root).to_pyarrow_dataset()
        return sorted(part.path for part in dataset.get_fragments(filter=condition)), dataset.to_table(filter=condition)

    assert_same(call, root)


def test_a_dataset_keeps_files_with_nan(tmp_path: Path) -> None:
    lakehouse_lib.write_deltalake(tmp_path, pa.table({"x": [1.0, float("nan")]}))
    dataset = lakehouse_lib.DeltaTable(tmp_path).to_pyarrow_dataset()
    assert dataset.to_table(filter=~(pads.field("x") <= 5)).num_rows == 1


def test_deletion_vectors(tmp_path: Path) -> None:
    rows = pa.table({"id": list(range(10)), "p": ["a/b c"] * 5 + ["d"] * 5})
    properties = {"delta.enableDeletionVectors": "true"}
    lakehouse_lib.write_deltalake(tmp_path / "t x", rows, partition_by="p", configuration=properties)
    lakehouse_lib.DeltaTable(tmp_path / "t x").delete("id IN (2, 3)")
    assert_same(table_call("deletion_vectors"), str(tmp_path / "t x"))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("keep", [None, [0], [1, 0], [2]], ids=str)
def test_vacuum(root: str, full: bool, keep: list[int] | None) -> None:
    stray = Path(root) / "part=a/stray.parquet"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    verb = table_call("vacuum", 0, True, False, full=full, keep_versions=keep)
    assert_same(lambda package, root: sorted(verb(package, root)), root)
    table = lakehouse_lib.DeltaTable(root)
    due = table.vacuum(0, False, False, full=full, keep_versions=keep)
    assert all(not (Path(root) / path).exists() for path in due)
    assert stray.exists() is not full
    for version in keep or []:
        assert lakehouse_lib.DeltaTable(root, version).to_pyarrow_table().num_rows == (4, 8, 6)[version]


def test_the_default_vacuum_deletes_no_files_that_commits_do_not_know(root: str) -> None:
    stray = Path(root) / "stray.parquet"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    properties = lakehouse_lib.CommitProperties(custom_metadata={"userName": "Ann"})
    table = lakehouse_lib.DeltaTable(root)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, commit_properties=properties)
    assert stray.exists()
    assert [(info["operation"], info["userName"]) for info in table.history(2)] == [
        ("VACUUM END", "Ann"),
        ("VACUUM START", "Ann"),
    ]


@pytest.mark.filterwarnings("ignore:arguments of vacuum:DeprecationWarning")
def test_arguments_by_position_are_deprecated(root: str) -> None:
    table, properties = lakehouse_lib.DeltaTable(root), lakehouse_lib.CommitProperties()
    with pytest.warns(DeprecationWarning, match="positionally"):
        table.vacuum(None, True, True, None, properties, True, [0])  # type: ignore[misc]
    for more in (
        lambda: table.vacuum(None, True, True, None, properties, commit_properties=properties),  # type: ignore[misc]
        lambda: table.vacuum(None, True, True, None, None, False, full=True),  # type: ignore[misc]
        lambda: table.vacuum(None, True, True, None, None, False, None, 5),  # type: ignore[misc]
    ):
        with pytest.raises(TypeError, match=r"multiple values for|unexpected positional"):
            more()
    with pytest.warns(DeprecationWarning, match="log_buffer_size"):
        lakehouse_lib.DeltaTable(root, log_buffer_size=5)


def test_modules_of_deltalake_exist_under_the_same_names() -> None:
    for module in ("exceptions", "fs", "schema", "query"):
        names = getattr(importlib.import_module(f"deltalake.{module}"), "__all__", ["QueryBuilder"])
        our_module = importlib.import_module(f"lakehouse_lib.{module}")
        assert [name for name in names if not hasattr(our_module, name)] == []


QUERIES = [
    "select * from t order by id",
    "select part, count(*) as n from t group by part order by part",
    'select a.id, b."a b" from t a join t b on a.id = b.id order by a.id, b."a b"',
    "select * from none",
    "select id from t where",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_queries(root: str, sql: str) -> None:
    def call(package: Package, root: str) -> Any:
        query = package.QueryBuilder().register("t", package.DeltaTable(root)).execute(sql)
        rows = pa.table(query.read_all())
        return rows.schema.names, rows.schema.types, rows.to_pylist()

    assert_same(call, root)


def test_nan_is_the_greatest_number_in_queries(tmp_path: Path) -> None:
    numbers = pa.array([1.0, float("nan"), None, -0.0])
    rows = pa.table({'a"b': numbers, "s": pa.StructArray.from_arrays([numbers], ["x"]), "k": range(4)})
    lakehouse_lib.write_deltalake(tmp_path, rows)
    for condition in ('"a""b" > 0', '"a""b" >= \'NaN\'', "t.s['x'] > 0", '"a""b" < \'NaN\'', "k > 1"):
        sql = f"SELECT k FROM t WHERE {condition} ORDER BY k"
        answers = [
            pa.table(package.QueryBuilder().register("t", package.DeltaTable(str(tmp_path))).execute(sql).read_all())
            for package in (deltalake, lakehouse_lib)
        ]
        assert answers[0]["k"].to_pylist() == answers[1]["k"].to_pylist(), condition


def test_a_query_reads_tables_with_deletion_vectors_and_no_other_files(tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    lakehouse_lib.write_deltalake(tmp_path, pa.table({"id": [1, 2, 3]}), configuration=properties)
    table = lakehouse_lib.DeltaTable(tmp_path)
    table.delete("id = 2")
    builder = lakehouse_lib.QueryBuilder({}).register("t", table)
    assert builder.execute("SELECT sum(id) AS s FROM t").read_all().to_pylist() == [{"s": 4}]
    for sql in (f"SELECT * FROM '{table.file_uris()[0]}'", f"COPY t TO '{tmp_path}/x.csv'", "SELECT * FROM table"):
        with pytest.raises(lakehouse_lib.InvalidArgumentError, match="the query cannot be run"):
            builder.execute(sql)
    with pytest.raises(NotImplementedError, match="DataFusion"):
        lakehouse_lib.QueryBuilder({"datafusion.execution.batch_size": "5"})


def test_a_missing_file_is_a_file_not_found_error(root: str) -> None:
    for file in Path(root).rglob("*.parquet"):
        file.unlink()
    for read in ("to_pyarrow_table", "to_pandas"):
        with pytest.raises(FileNotFoundError) as raised:
            getattr(lakehouse_lib.DeltaTable(root), read)()
        assert raised.value.args[0].startswith("the data file")
        assert isinstance(raised.value, lakehouse_lib.ObjectNotFoundError)
