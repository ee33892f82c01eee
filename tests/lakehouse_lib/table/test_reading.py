"""Reading a table, and passing it to Arrow, pandas, Polars, DuckDB and Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, InvalidArgumentError, write_deltalake
from tests.log_builder import data_file, field, put_table
from tests.peers import plain

ROWS = pa.table(
    {
        "id": range(100),
        "day": pa.array([None if i % 10 == 9 else dt.date(2026, 1, 1 + i % 3) for i in range(100)]),
        "name": [f"n{i}" for i in range(100)],
        "value": pa.array([None if i % 7 == 0 else i / 2 for i in range(100)]),
    }
)
SQL = "day = DATE '2026-01-02' AND value > 20"
FILTERS = [("day", "=", dt.date(2026, 1, 2)), ("value", ">", 20)]
EXPRESSION = (pc.field("day") == dt.date(2026, 1, 2)) & (pc.field("value") > 20)
EXPECTED = plain(ROWS.filter(EXPRESSION).select(["id", "day"]))


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table: version 0 has no ``value``; version 1 has all rows, in one folder a day."""
    path = tmp_path_factory.mktemp("tables") / "t"
    write_deltalake(path, ROWS.select(["id", "day", "name"]).slice(0, 0), partition_by=["day"])
    for start in (0, 50):
        write_deltalake(path, ROWS.slice(start, 50), mode="append", schema_mode="merge")
    return path


class TestRows:
    @pytest.mark.parametrize("filters", [SQL, FILTERS, [FILTERS, [("id", "<", 0)]], EXPRESSION], ids=type)
    def test_filters_of_every_kind(self, uri: Path, filters: Any) -> None:
        table = DeltaTable(uri)
        assert plain(table.to_pyarrow_table(columns=["id", "day"], filters=filters)) == EXPECTED
        assert table.to_pandas(columns=["id"], filters=filters)["id"].sum() == pc.sum(EXPECTED["id"]).as_py()

    def test_an_expression_on_files_whose_statistics_are_of_another_type(self, tmp_path: Path) -> None:
        # pyarrow compares an expression with a file's statistics in the file's own types, for which it has no kernel.
        pl.DataFrame({"s": ["a", "b"], "b": [b"a", b"b"]}).write_delta(tmp_path / "polars")
        (file,) = (tmp_path / "polars").glob("*.parquet")
        assert pq.read_schema(file).field("s").type == pa.string_view()
        table = DeltaTable(tmp_path / "polars")
        assert table.to_pyarrow_table(filters=pc.field("s") == "b").to_pylist() == [{"s": "b", "b": b"b"}]
        assert table.to_pandas(filters=pc.field("b") == b"b")["s"].to_list() == ["b"]
        moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        rows = pa.table({"t": pa.array([moment.replace(tzinfo=None)], pa.timestamp("us"))})
        put_table(tmp_path / "times", [field("t", "timestamp")], [data_file(tmp_path / "times", "a.parquet", rows)])
        assert DeltaTable(tmp_path / "times").to_pyarrow_table(filters=pc.field("t") == moment).num_rows == 1

    @pytest.mark.parametrize("wrong", ["nowhere", "ID", "name"])
    def test_an_expression_that_the_columns_cannot_answer_is_refused(self, uri: Path, wrong: str) -> None:
        with pytest.raises(InvalidArgumentError, match=rf"{wrong}.*{uri}.*in the same case: id, day"):
            DeltaTable(uri).to_pyarrow_table(filters=pc.field(wrong) == 1)

    @pytest.mark.parametrize("filters", [None, SQL, EXPRESSION], ids=["all", "SQL", "expression"])
    @pytest.mark.parametrize("columns", ["id", ["nowhere"], [0], 5, ["id", "ID"]], ids=repr)
    def test_columns_that_do_not_exist_are_refused(self, uri: Path, columns: Any, filters: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=rf"column.*{uri}"):
            DeltaTable(uri).to_pyarrow_table(columns=columns, filters=filters)

    def test_columns_beside_an_expression_are_found_in_any_case(self, uri: Path) -> None:
        result = DeltaTable(uri).to_pyarrow_table(columns=["ID"], filters=EXPRESSION)
        assert plain(result) == plain(EXPECTED.select(["id"]))

    @pytest.mark.parametrize("condition", [EXPRESSION, {"id": 1}, 5, pl.col("id") > 1], ids=type)
    def test_a_condition_of_another_kind_is_refused(self, uri: Path, condition: Any) -> None:
        table = DeltaTable(uri)
        for ask in (
            table.files,
            table.file_uris,
            table.partitions,
            table.to_pyarrow_dataset,
            table.to_pyarrow_table,
            table.optimize.compact,
            lambda what: table.scan(predicate=what),
        ):
            with pytest.raises(InvalidArgumentError, match=rf"the condition is a .*{uri}.*Write SQL, or"):
                ask(condition)

    @pytest.mark.parametrize("filters", ["value > 20", [("value", ">", 20)], pc.field("value") > 20], ids=type)
    @pytest.mark.parametrize(
        ("partitions", "mask"),
        [
            ([("day", "=", dt.date(2026, 1, 2))], pc.field("day") == dt.date(2026, 1, 2)),
            ([("day", "!=", dt.date(2026, 1, 2))], pc.field("day") != dt.date(2026, 1, 2)),
            ([("id", "<", 60)], pc.field("id") < 60),
            ([("day", "=", dt.date(2026, 1, 2)), ("id", "<", 60)], EXPRESSION & (pc.field("id") < 60)),
        ],
        ids=["partition", "other partitions", "rows", "both"],
    )
    def test_partitions_are_a_condition_on_rows_beside_filters_of_every_kind(
        self, uri: Path, partitions: Any, mask: pc.Expression, filters: Any
    ) -> None:
        result = DeltaTable(uri).to_pyarrow_table(partitions, ["id", "day"], filters=filters)
        expected = plain(ROWS.filter(mask & (pc.field("value") > 20)).select(["id", "day"]))
        assert len(expected)
        assert plain(result) == expected

    @pytest.mark.parametrize("predicate", [SQL, FILTERS])
    def test_a_scan_streams(self, uri: Path, predicate: Any) -> None:
        reader = DeltaTable(uri).scan(["id", "day"], predicate)
        assert isinstance(reader, pa.RecordBatchReader)
        assert plain(reader.read_all()) == EXPECTED

    def test_columns_come_in_the_order_asked_for(self, uri: Path) -> None:
        columns = ["value", "day", "id"]
        assert DeltaTable(uri).to_pyarrow_table(columns=columns).column_names == columns
        assert DeltaTable(uri).scan(columns).schema.names == columns

    @pytest.mark.parametrize("filters", [None, SQL, EXPRESSION], ids=["all", "SQL", "expression"])
    def test_no_columns_leave_the_number_of_rows(self, uri: Path, filters: Any) -> None:
        result = DeltaTable(uri).to_pyarrow_table(columns=[], filters=filters)
        assert (result.num_rows, result.column_names) == (100 if filters is None else len(EXPECTED), [])
        if filters is not EXPRESSION:
            assert sum(batch.num_rows for batch in DeltaTable(uri).scan([], filters)) == result.num_rows

    def test_an_old_version_has_its_own_schema(self, uri: Path) -> None:
        old = DeltaTable(uri, version=0)
        assert old.schema().names == ["id", "day", "name"]
        assert old.to_pyarrow_table().column_names == ["id", "day", "name"]
        with pytest.raises(InvalidArgumentError, match="value"):
            old.scan(["value"])

    def test_pandas_types_are_the_callers_choice(self, uri: Path) -> None:
        frame = DeltaTable(uri).to_pandas(columns=["id"], types_mapper={pa.int64(): pd.Int64Dtype()}.get)
        assert str(frame.dtypes["id"]) == "Int64"

    def test_spark_reads_columns_and_filters(self, uri: Path, spark: Any) -> None:
        for filters in (SQL, FILTERS):
            frame = DeltaTable(uri).to_spark(spark, columns=["id", "day"], filters=filters)
            assert plain(frame.toArrow()) == EXPECTED
        assert DeltaTable(uri).to_spark(spark, ["id"]).columns == ["id"]


class TestDataset:
    def test_partitions_and_pruning(self, uri: Path) -> None:
        table = DeltaTable(uri)
        dataset = table.to_pyarrow_dataset(file_pruning_predicate="day = DATE '2026-01-02'")
        assert len(list(dataset.get_fragments())) == 2
        assert plain(dataset.to_table(columns=["id", "day"], filter=pc.field("value") > 20)) == EXPECTED
        days = table.to_pyarrow_dataset([("day", "=", dt.date(2026, 1, 2))])
        assert plain(days.to_table(columns=["id", "day"], filter=pc.field("value") > 20)) == EXPECTED

    def test_two_names_for_one_condition_are_refused(self, uri: Path) -> None:
        with pytest.raises(InvalidArgumentError, match="both partitions and file_pruning_predicate"):
            DeltaTable(uri).to_pyarrow_dataset([("id", "=", 1)], file_pruning_predicate="id = 1")

    def test_large_types(self, uri: Path) -> None:
        dataset = DeltaTable(uri).to_pyarrow_dataset(as_large_types=True)
        assert dataset.schema.field("name").type == pa.large_string()
        assert plain(dataset.to_table()) == plain(ROWS)
        delta_rs_schema = pa.schema(deltalake.DeltaTable(uri).schema().to_arrow(as_large_types=True))
        assert DeltaTable(uri).schema().to_arrow(as_large_types=True).types == delta_rs_schema.types

    def test_a_schema_of_the_caller(self, uri: Path) -> None:
        schema = pa.schema([("id", pa.int64()), ("name", pa.large_string())])
        assert DeltaTable(uri).to_pyarrow_dataset(schema=schema).to_table().schema == schema

    def test_a_file_system_of_the_caller(self, uri: Path) -> None:
        filesystem = pyarrow.fs.SubTreeFileSystem(str(uri), pyarrow.fs.LocalFileSystem())
        assert plain(DeltaTable(uri).to_pyarrow_dataset(filesystem=filesystem).to_table()) == plain(ROWS)


class TestHandOver:
    def test_pyarrow(self, uri: Path) -> None:
        assert plain(pa.table(DeltaTable(uri))) == plain(ROWS)
        assert pa.RecordBatchReader.from_stream(DeltaTable(uri)).schema.names == ROWS.column_names

    def test_pyarrow_asks_for_types(self, uri: Path) -> None:
        schema = pa.schema(
            [(column.name, pa.large_string() if column.name == "name" else column.type) for column in ROWS.schema]
        )
        assert pa.table(DeltaTable(uri), schema=schema).schema.field("name").type == pa.large_string()

    def test_polars(self, uri: Path) -> None:
        table = DeltaTable(uri)
        assert plain(pl.DataFrame(table).to_arrow()) == plain(ROWS)
        assert sorted(pl.DataFrame(table.scan(["id"], "id < 5"))["id"]) == [0, 1, 2, 3, 4]
        assert plain(pl.from_arrow(table.to_pyarrow_table()).to_arrow()) == plain(ROWS)
        lazy = pl.scan_pyarrow_dataset(table.to_pyarrow_dataset())
        result = lazy.filter((pl.col("day") == dt.date(2026, 1, 2)) & (pl.col("value") > 20)).select("id", "day")
        assert plain(result.collect().to_arrow()) == EXPECTED

    def test_duckdb(self, uri: Path) -> None:
        opened = DeltaTable(uri)
        with duckdb.connect() as connection:
            reader = opened.scan()
            assert connection.sql(f"SELECT id, day FROM reader WHERE {SQL}").fetchall()
            del reader
            for source in (opened, opened.to_pyarrow_dataset(), opened.to_pyarrow_table()):  # noqa: B007 - the SQL names it
                result = connection.sql(f"SELECT id, day FROM source WHERE {SQL}").to_arrow_table()
                assert plain(result) == EXPECTED
            # A table can be read several times, a reader only once.
            assert connection.sql("SELECT count(*) FROM opened AS a JOIN opened AS b USING (id)").fetchall() == [(100,)]

    def test_delta_rs(self, uri: Path, tmp_path: Path) -> None:
        deltalake.write_deltalake(tmp_path / "theirs", DeltaTable(uri), partition_by=["day"])
        assert plain(deltalake.DeltaTable(tmp_path / "theirs").to_pyarrow_table()) == plain(ROWS)


class TestTakingOver:
    """Any Arrow stream is valid data for a write."""

    @pytest.mark.parametrize(
        "data",
        [
            ROWS,
            ROWS.to_reader(7),
            ROWS.to_batches(30),
            ROWS.to_pandas(types_mapper={pa.float64(): __import__("pandas").Float64Dtype()}.get),
            pl.from_arrow(ROWS),
            pads.dataset(ROWS).scanner().to_reader(),
        ],
        ids=["table", "reader", "batches", "pandas", "polars", "scanner"],
    )
    def test_frames(self, tmp_path: Path, data: Any) -> None:
        write_deltalake(tmp_path / "t", data)
        assert plain(DeltaTable(tmp_path / "t").to_pyarrow_table()) == plain(ROWS)

    def test_a_duckdb_relation(self, tmp_path: Path) -> None:
        rows = ROWS  # noqa: F841 - DuckDB finds it by its name
        with duckdb.connect() as connection:
            write_deltalake(tmp_path / "t", connection.sql("SELECT * FROM rows WHERE id < 50"))
        assert DeltaTable(tmp_path / "t").count() == 50

    def test_a_table_of_this_library(self, uri: Path, tmp_path: Path) -> None:
        write_deltalake(tmp_path / "t", DeltaTable(uri), partition_by=["day"])
        assert plain(DeltaTable(tmp_path / "t").to_pyarrow_table()) == plain(ROWS)
        # Also onto the table itself: the rows are those of the open version.
        table = DeltaTable(tmp_path / "t")
        write_deltalake(table, table, mode="append")
        assert DeltaTable(tmp_path / "t").count() == 200

    def test_a_scan_of_delta_rs(self, uri: Path, tmp_path: Path) -> None:
        write_deltalake(tmp_path / "t", deltalake.DeltaTable(uri).scan())
        assert plain(DeltaTable(tmp_path / "t").to_pyarrow_table()) == plain(ROWS)

    def test_a_scan_of_this_library(self, uri: Path, tmp_path: Path) -> None:
        write_deltalake(tmp_path / "t", DeltaTable(uri).scan(["id", "day"], SQL))
        assert plain(DeltaTable(tmp_path / "t").to_pyarrow_table()) == EXPECTED

    def test_values_that_are_not_data_are_refused(self, tmp_path: Path) -> None:
        for data in ({"id": [1]}, [1, 2], "rows", None, [], [ROWS, ROWS]):
            with pytest.raises(
                InvalidArgumentError, match=r"has no rows that Arrow can read.*a list of record batches"
            ):
                write_deltalake(tmp_path / "t", data)

    @pytest.mark.parametrize(
        "data",
        [
            pl.Series("x", [1]),
            pa.array([1]),
            pa.chunked_array([[1]]),
            [pa.array([1])],
            pl.DataFrame({"p": pl.Series([1], dtype=pl.Int128)}),
            pd.DataFrame({"id": [1, "a"]}),
            pl.DataFrame({"p": [object()]}),
        ],
        ids=["series", "array", "chunks", "arrays", "Int128", "mixed", "objects"],
    )
    def test_data_without_an_arrow_type_is_refused(self, tmp_path: Path, data: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=r"data of type .* cannot be written"):
            write_deltalake(tmp_path / "t", data)
        assert not (tmp_path / "t").exists()


class TestFiles:
    def test_uris_and_partitions_by_condition(self, uri: Path) -> None:
        table, peer = DeltaTable(uri), deltalake.DeltaTable(uri)
        for condition in ("day = DATE '2026-01-02'", [("day", "=", "2026-01-02")], [("day", "in", ["2026-01-02"])]):
            assert len(table.file_uris(file_pruning_predicate=condition)) == 2
            assert table.partitions(file_pruning_predicate=condition) == [{"day": "2026-01-02"}]
        assert table.partitions([("day", "=", "2026-01-02")]) == [{"day": "2026-01-02"}]
        assert sorted(table.file_uris()) == sorted(peer.file_uris())
        assert sorted(table.partitions(), key=str) == sorted(peer.partitions(), key=str)

    def test_a_table_without_partitions_has_none(self, tmp_path: Path) -> None:
        write_deltalake(tmp_path / "t", ROWS)
        assert DeltaTable(tmp_path / "t").partitions() == deltalake.DeltaTable(tmp_path / "t").partitions() == []


def test_files_without_the_text_of_statistics_or_as_asked(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2]}))
    table = DeltaTable(tmp_path / "t")
    listed = table.files()
    assert {"path", "partitionValues", "size", "modificationTime"} <= set(listed.column_names)
    assert not {"stats", "tags"} & set(listed.column_names)
    assert table.files("id = 1", columns=["stats", "size"]).column_names == ["stats", "size"]
    assert table.files("id = 3", columns=["size"]).num_rows == 0
    with pytest.raises(
        InvalidArgumentError, match=r"the column 'bytes' does not exist.*version 0.*The columns are path"
    ):
        table.files(columns=["bytes"])
