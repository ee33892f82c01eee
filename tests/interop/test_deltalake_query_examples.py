"""The examples of the ``deltalake`` package's documentation on querying and the feed, with a changed import.

The same code on the same table must give the same result. The pages: querying tables, reading the change data feed, the
integrations (Arrow, pandas, Polars, Dask, DataFusion), and the upgrade guide. docs/reading.md lists the examples that
do not apply.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.interop.example_tables import DELTA_RS, LAKEHOUSE, Examples, changes, rows_of

EXAMPLES = Examples()


# Querying.


@EXAMPLES.add
def pandas_of_a_partition(m: Any, root: str) -> Any:
    return rows_of(m.DeltaTable(f"{root}/days").to_pandas(filters=[("year", "=", "2021")], columns=["value"]))


@EXAMPLES.add
def pandas_by_the_older_name_of_filters(m: Any, root: str) -> Any:
    return rows_of(m.DeltaTable(f"{root}/days").to_pandas(partitions=[("year", "=", "2021")], columns=["value"]))


@EXAMPLES.add
def pandas_with_types_of_the_callers(m: Any, root: str) -> Any:
    frame = m.DeltaTable(f"{root}/letters").to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return frame.dtypes.to_dict(), rows_of(frame)


@EXAMPLES.add
def an_arrow_table_of_a_partition(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/days").to_pyarrow_table(filters=[("year", "=", "2021")], columns=["value"])
    return table.schema, sorted(table["value"].to_pylist())


@EXAMPLES.add
def an_arrow_table_by_alternatives(m: Any, root: str) -> Any:
    either = [[("year", "=", "2020"), ("value", "<", "2")], [("value", ">", "6")]]
    return sorted(m.DeltaTable(f"{root}/days").to_pyarrow_table(filters=either)["value"].to_pylist())


@EXAMPLES.add
def an_arrow_table_by_an_expression(m: Any, root: str) -> Any:
    condition = (ds.field("year") == "2021") & (ds.field("value") > "4")
    return sorted(m.DeltaTable(f"{root}/days").to_pyarrow_table(filters=condition)["value"].to_pylist())


@EXAMPLES.add
def a_dataset_by_an_expression(m: Any, root: str) -> Any:
    condition = (ds.field("year") == "2021") & (ds.field("value") > "4")
    dataset = m.DeltaTable(f"{root}/days").to_pyarrow_dataset()
    return rows_of(dataset.to_table(filter=condition, columns=["value"]).to_pandas())


@EXAMPLES.add
def a_dataset_batch_by_batch(m: Any, root: str) -> Any:
    condition = (ds.field("year") == "2021") & (ds.field("value") > "4")
    dataset = m.DeltaTable(f"{root}/days").to_pyarrow_dataset()
    batches = dataset.to_batches(filter=condition, columns=["value"], batch_size=2)
    return sorted(value for batch in batches for value in batch.to_pydict()["value"])


@EXAMPLES.add
def a_dataset_pruned_before(m: Any, root: str) -> Any:
    dataset = m.DeltaTable(f"{root}/days").to_pyarrow_dataset(file_pruning_predicate="year = '2021'")
    return rows_of(dataset.to_table(columns=["value"]).to_pandas())


@EXAMPLES.add
def a_dataset_of_large_types(m: Any, root: str) -> Any:
    dataset = m.DeltaTable(f"{root}/days").to_pyarrow_dataset(as_large_types=True)
    return dataset.schema.types, rows_of(dataset.to_table().to_pandas())


@EXAMPLES.add
def duckdb_over_a_dataset(m: Any, root: str) -> Any:
    relation = duckdb.arrow(m.DeltaTable(f"{root}/days").to_pyarrow_dataset())
    return sorted(relation.filter("year = '2021' and value > '4'").project("value").fetchall())


@EXAMPLES.add
def duckdb_over_an_arrow_table(m: Any, root: str) -> Any:
    return sorted(duckdb.arrow(m.DeltaTable(f"{root}/letters").to_pyarrow_table()).filter("num > 11").fetchall())


@EXAMPLES.add
def rows_as_a_stream(m: Any, root: str) -> Any:
    reader = m.DeltaTable(f"{root}/days").scan(columns=["value"], predicate="year = '2021'")
    return sorted(value for batch in reader for value in pa.record_batch(batch).to_pydict()["value"])


@EXAMPLES.add
def polars_of_an_arrow_table(m: Any, root: str) -> Any:
    frame = pl.DataFrame(m.DeltaTable(f"{root}/letters").to_pyarrow_table())
    return frame.filter(pl.col("num") > 11).rows()


@EXAMPLES.add
def polars_over_a_dataset(m: Any, root: str) -> Any:
    lazy = pl.scan_pyarrow_dataset(m.DeltaTable(f"{root}/days").to_pyarrow_dataset())
    frame = lazy.filter(pl.col("year") < "2021").group_by("year", "month").agg(pl.len()).collect()
    return sorted(frame.rows())


@EXAMPLES.add
def pandas_reads_a_query(m: Any, root: str) -> Any:
    frame = m.DeltaTable(f"{root}/days", version=0).to_pandas(filters=[("year", "==", "2021")], columns=["month"])
    return frame.groupby("month").agg({"month": "count"}).to_dict()


@EXAMPLES.add
def pandas_of_every_version(m: Any, root: str) -> Any:
    return [rows_of(m.DeltaTable(f"{root}/letters", version=number).to_pandas()) for number in (0, 1, 2)]


# The change data feed. The kinds of Arrow types differ (see docs/reading.md), the values do not.


@EXAMPLES.add
def the_feed_of_some_versions(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/feed").load_cdf(starting_version=0, ending_version=3).read_all()
    counted = pl.from_arrow(pa.table(table)).group_by("_commit_version").len().sort("len", descending=True)
    return sorted(counted.rows())


@EXAMPLES.add
def the_whole_feed(m: Any, root: str) -> Any:
    return changes(m.DeltaTable(f"{root}/feed").load_cdf())


@EXAMPLES.add
def the_feed_in_polars(m: Any, root: str) -> Any:
    return sorted(pl.DataFrame(m.DeltaTable(f"{root}/feed").load_cdf(columns=["id", "_change_type"])).rows())


@EXAMPLES.add
def the_feed_by_columns_and_predicate(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/feed")
    return changes(table.load_cdf(1, columns=["id", "_change_type"], predicate="_change_type = 'delete' OR id = 5"))


@EXAMPLES.add
def the_feed_out_of_range(m: Any, root: str) -> Any:
    table = m.DeltaTable(f"{root}/feed")
    try:
        table.load_cdf(starting_version=99)
    except Exception:
        return changes(table.load_cdf(starting_version=99, allow_out_of_range=True))
    return "no error"


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.filterwarnings("ignore:.*is deprecated; use `filters`:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:`partitions` is deprecated:DeprecationWarning")
def test_the_same_code_gives_the_same_result(name: str, tables: Path) -> None:
    our_result, delta_rs_result = (EXAMPLES[name](m, str(tables)) for m in (LAKEHOUSE, DELTA_RS))
    assert our_result == delta_rs_result
