"""The examples of the ``deltalake`` package's documentation on changing rows, with a changed import.

The same code must give the same table, as delta-rs reads it, and the same return values. The pages: updating, deleting,
merging, the change data feed, and the docstrings of the verbs and of ``TableMerger``. Examples on writing and managing
tables are in ``test_deltalake_table_examples.py``, those on reading in ``test_deltalake_examples.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.interop.example_tables import DELTA_RS, LAKEHOUSE, Examples, changes, described, table_of
from tests.slow_cases import some_slow

EXAMPLES = Examples()

TARGET = {"x": [1, 2, 3], "y": [4, 5, 6]}
UPSERT = {"x": [2, 3, 5], "y": [5, 8, 11]}
BOTH = {"x": "source.x", "y": "source.y"}
ITEMS = {"id": ["1", "2", "3"], "deleted": [False, False, False], "price": [10.0, 15.0, 20.0]}
ON_X = {"predicate": "target.x = source.x", "source_alias": "source", "target_alias": "target"}


def merging(m: Any, path: str, source: Any, target: dict[str, list[Any]] = TARGET, **options: Any) -> Any:
    source = pa.table(source) if isinstance(source, dict) else source
    return table_of(m, path, target).merge(source=source, **{**ON_X, **options})


def row_counts(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics that count rows. How rows are spread over files is not the same."""
    return {name: count for name, count in metrics.items() if "rows" in name}


# Merging: the page.


@EXAMPLES.add
def a_merge_updates(m: Any, path: str) -> Any:
    return row_counts(merging(m, path, {"x": [2, 3], "y": [5, 8]}).when_matched_update(updates=BOTH).execute())


@EXAMPLES.add
def a_merge_inserts(m: Any, path: str) -> Any:
    source = {"x": [2, 3, 7], "y": [4, 5, 8]}
    return row_counts(merging(m, path, source).when_not_matched_insert(updates=BOTH).execute())


@EXAMPLES.add
def a_merge_deletes(m: Any, path: str) -> Any:
    source = {"x": [2, 3], "deleted": [False, True]}
    return row_counts(merging(m, path, source).when_matched_delete(predicate="source.deleted = true").execute())


@EXAMPLES.add
def a_merge_upserts(m: Any, path: str) -> Any:
    merge = merging(m, path, UPSERT).when_matched_update(updates=BOTH).when_not_matched_insert(updates=BOTH)
    return row_counts(merge.execute())


@EXAMPLES.add
def a_merge_upserts_and_deletes(m: Any, path: str) -> Any:
    merge = merging(m, path, UPSERT).when_matched_update(updates=BOTH).when_not_matched_insert(updates=BOTH)
    return row_counts(merge.when_not_matched_by_source_delete().execute())


@EXAMPLES.add
def the_first_clause_deletes(m: Any, path: str) -> Any:
    merge = merging(m, path, UPSERT).when_matched_delete(predicate="source.x = target.x")
    return row_counts(merge.when_matched_update(updates=BOTH).execute())


@EXAMPLES.add
def the_first_clause_updates(m: Any, path: str) -> Any:
    merge = merging(m, path, UPSERT).when_matched_update(updates=BOTH)
    return row_counts(merge.when_matched_delete(predicate="source.x = target.x").execute())


@EXAMPLES.add
def a_merge_updates_rows_that_the_source_lacks(m: Any, path: str) -> Any:
    target = {"1 x": [1, 2, 3], "1y": [4, 5, 6]}
    merge = merging(m, path, {"x": [2, 3, 4]}, target, predicate="target.`1 x` = source.x")
    return row_counts(merge.when_not_matched_by_source_update(predicate="`1y` > 3", updates={"`1y`": "0"}).execute())


@EXAMPLES.add
def a_merge_prunes_partitions(m: Any, path: str) -> Any:
    rows = {"id": [1, 2, 3], "date": ["2024-01-01", "2024-01-02", "2024-01-03"], "value": [1, 2, 3]}
    table = table_of(m, path, rows, partition_by="date")
    source = pa.table({"id": [2, 9], "date": ["2024-01-02", "2024-01-02"], "value": [20, 90]})
    merge = table.merge(
        source=source,
        predicate="s.id = t.id AND s.date = t.date AND t.date IN ('2024-01-02')",
        source_alias="s",
        target_alias="t",
    )
    return row_counts(merge.when_matched_update_all().when_not_matched_insert_all().execute())


@EXAMPLES.add
def a_merge_compares_more_columns(m: Any, path: str) -> Any:
    rows = {"id": [1, 2, 3], "month_id": [202412, 202501, 202501], "date_id": [20241231, 20250119, 20250120]}
    table = table_of(m, path, {**rows, "hash": ["a", "b", "c"]}, partition_by=["month_id"])
    source = {"id": [3, 4], "month_id": [202501, 202501], "date_id": [20250120, 20250120], "hash": ["d", "e"]}
    merge = table.merge(
        source=pa.table(source),
        predicate="s.id = t.id AND s.month_id = t.month_id AND t.month_id = 202501 AND s.date_id = t.date_id "
        "AND t.date_id = 20250120",
        source_alias="s",
        target_alias="t",
    )
    metrics = merge.when_matched_update_all("s.hash != t.hash").when_not_matched_insert_all().execute()
    assert {"num_target_files_scanned", "num_target_files_skipped_during_scan", "execution_time_ms"} <= set(metrics)
    return row_counts(metrics)


# Merging: the docstrings.


@EXAMPLES.add
def a_merge_updates_a_column_in_backticks(m: Any, path: str) -> Any:
    merge = merging(m, path, {"x": [1], "1y": [7]}, {"x": [1, 2, 3], "1y": [4, 5, 6]})
    return row_counts(merge.when_matched_update(updates={"x": "source.x", "`1y`": "source.`1y`"}).execute())


@EXAMPLES.add
def a_merge_updates_all_columns(m: Any, path: str) -> Any:
    return row_counts(merging(m, path, {"x": [1], "y": [7]}).when_matched_update_all().execute())


@EXAMPLES.add
def a_merge_updates_all_columns_except_some(m: Any, path: str) -> Any:
    merge = merging(m, path, {"x": [1], "y": [7]}).when_matched_update_all(except_cols=["y"])
    return row_counts(merge.execute())


@EXAMPLES.add
def a_merge_deletes_all_matches(m: Any, path: str) -> Any:
    return row_counts(merging(m, path, {"x": [2, 3], "deleted": [False, True]}).when_matched_delete().execute())


@EXAMPLES.add
def a_merge_inserts_all_columns(m: Any, path: str) -> Any:
    return row_counts(merging(m, path, {"x": [4], "y": [7]}).when_not_matched_insert_all().execute())


@EXAMPLES.add
def a_merge_inserts_all_columns_except_some(m: Any, path: str) -> Any:
    merge = merging(m, path, {"x": [4], "y": [7]}).when_not_matched_insert_all(except_cols=["y"])
    return row_counts(merge.execute())


@EXAMPLES.add
def a_merge_deletes_rows_that_the_source_lacks(m: Any, path: str) -> Any:
    merge = merging(m, path, {"x": [2, 3, 4]}).when_not_matched_by_source_delete(predicate="y > 3")
    return row_counts(merge.execute())


@EXAMPLES.add
def a_merge_of_a_pandas_frame(m: Any, path: str) -> Any:
    return row_counts(merging(m, path, pd.DataFrame(UPSERT)).when_not_matched_insert_all().execute())


@EXAMPLES.add
def a_merge_of_a_polars_frame(m: Any, path: str) -> Any:
    return row_counts(merging(m, path, pl.DataFrame(UPSERT)).when_matched_update_all().execute())


@EXAMPLES.add
def a_merge_of_a_stream(m: Any, path: str) -> Any:
    merge = merging(m, path, pa.table(UPSERT).to_reader())
    return row_counts(merge.when_matched_update_all().when_not_matched_insert_all().execute())


@EXAMPLES.add
def a_merge_of_new_columns(m: Any, path: str) -> Any:
    source = {"x": [3, 4], "y": [7, 8], "z": ["a", "b"]}
    merge = merging(m, path, source, merge_schema=True)
    return row_counts(merge.when_matched_update_all().when_not_matched_insert_all().execute())


# Updating.


@EXAMPLES.add
def an_update_by_sql(m: Any, path: str) -> Any:
    table = table_of(m, path, ITEMS)
    return row_counts(table.update(predicate="id = '3'", updates={"deleted": "True"}))


@EXAMPLES.add
def an_update_of_all_rows(m: Any, path: str) -> Any:
    return row_counts(table_of(m, path, ITEMS).update(updates={"deleted": "True", "id": "concat(id, '_old')"}))


@EXAMPLES.add
def an_update_by_python_values(m: Any, path: str) -> Any:
    table = table_of(m, path, ITEMS)
    table.update(updates={"deleted": "True", "id": "concat(id, '_old')"})
    return row_counts(table.update(predicate="id = '1_old'", new_values={"price": 150.10})), table.version()


# Deleting.


@EXAMPLES.add
def a_delete_by_sql(m: Any, path: str) -> Any:
    return row_counts(table_of(m, path, {"num": [1, 2, 3, 4], "letter": ["a", "b", "c", "d"]}).delete("num > 2"))


@EXAMPLES.add
def a_delete_of_all_rows(m: Any, path: str) -> Any:
    table = table_of(m, path, {"num": [1, 2, 3, 4], "letter": ["a", "b", "c", "d"]})
    return row_counts(table.delete()), table.version()


@EXAMPLES.add
def a_delete_of_a_partition(m: Any, path: str) -> Any:
    return row_counts(table_of(m, path, {"x": [1, 2], "day": ["a", "b"]}, partition_by=["day"]).delete("day = 'a'"))


# The change data feed: the page on reading it, after each verb.

FEED = {"delta.enableChangeDataFeed": "true"}


def with_feed(m: Any, path: str) -> Any:
    return table_of(m, path, {"id": [1, 2, 3, 4], "name": ["a", "b", "c", None]}, configuration=FEED)


@EXAMPLES.add
def the_feed_of_appends(m: Any, path: str) -> Any:
    with_feed(m, path)
    m.write_deltalake(path, pa.table({"id": [5], "name": ["e"]}), mode="append")
    table = m.DeltaTable(path)
    return changes(table.load_cdf(starting_version=0, ending_version=1)), changes(table.load_cdf(starting_version=1))


@EXAMPLES.add
def the_feed_of_an_update(m: Any, path: str) -> Any:
    table = with_feed(m, path)
    table.update(predicate="id > 2", updates={"name": "'updated'"})
    return changes(table.load_cdf(starting_version=1).read_all())


@EXAMPLES.add
def the_feed_of_a_delete(m: Any, path: str) -> Any:
    table = with_feed(m, path)
    table.delete("id = 2")
    table.delete()
    return changes(table.load_cdf(starting_version=1).read_all())


@EXAMPLES.add
def the_feed_of_a_merge(m: Any, path: str) -> Any:
    source = pa.table({"id": [2, 3, 9], "name": ["changed", None, "new"]})
    table = with_feed(m, path)
    merge = table.merge(source, predicate="target.id = source.id", source_alias="source", target_alias="target")
    merge = merge.when_matched_delete(predicate="source.name IS NULL").when_matched_update_all()
    merge.when_not_matched_insert_all().when_not_matched_by_source_delete(predicate="target.id = 4").execute()
    return changes(table.load_cdf(starting_version=1).read_all())


@EXAMPLES.add
def the_feed_of_overwrites(m: Any, path: str) -> Any:
    table = with_feed(m, path)
    new = pa.table({"id": [3, 8], "name": ["x", "y"]})
    m.write_deltalake(table, new, mode="overwrite", predicate="id >= 3")
    m.write_deltalake(path, new, mode="overwrite")
    return changes(m.DeltaTable(path).load_cdf(starting_version=1).read_all())


@EXAMPLES.add
def the_feed_of_an_optimized_table(m: Any, path: str) -> Any:
    table = with_feed(m, path)
    m.write_deltalake(path, pa.table({"id": [5], "name": ["e"]}), mode="append")
    table = m.DeltaTable(path)
    table.optimize.compact()
    return changes(table.load_cdf(starting_version=2).read_all())


@EXAMPLES.add
def a_feed_from_a_later_version_on(m: Any, path: str) -> Any:
    table = table_of(m, path, {"id": [1, 2, 3]})
    table.alter.set_table_properties(FEED)
    table.update({"id": "id + 10"}, predicate="id = 1")
    return changes(m.DeltaTable(path).load_cdf(starting_version=1).read_all())


@EXAMPLES.add
def changed_rows_in_polars(m: Any, path: str) -> Any:
    table = with_feed(m, path)
    table.update({"name": "'z'"}, predicate="id = 1")
    table.delete("id = 4")
    frame = pl.from_arrow(pa.table(table.load_cdf(starting_version=0, ending_version=2).read_all()))
    return sorted(frame.group_by("_commit_version").len().rows())


@EXAMPLES.add
def changed_rows_by_a_predicate(m: Any, path: str) -> Any:
    table = with_feed(m, path)
    table.update({"name": "'z'"}, predicate="id < 3")
    predicate = "_change_type = 'update_postimage' AND id = 2"
    return changes(table.load_cdf(starting_version=1, predicate=predicate, columns=["id", "name", "_change_type"]))


@pytest.mark.parametrize("name", some_slow([*EXAMPLES], 15))
def test_the_same_code_gives_the_same_table(name: str, tmp_path: Path) -> None:
    results = [EXAMPLES[name](m, str(tmp_path / side)) for m, side in ((LAKEHOUSE, "ours"), (DELTA_RS, "theirs"))]
    assert results[0] == results[1]
    assert described(str(tmp_path / "ours")) == described(str(tmp_path / "theirs"))
