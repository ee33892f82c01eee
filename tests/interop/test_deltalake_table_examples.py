"""The examples of the ``deltalake`` package's documentation on writing and managing tables, with a changed import.

The same code must give the same table, as delta-rs reads it, and the same return values. The pages: writing, appending
and overwriting, constraints, dropping columns, managing tables, small files, and the docstrings of ``write_deltalake``,
``TableAlterer`` and ``TableOptimizer``.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import deltalake
import pandas as pd
import pyarrow as pa
import pytest

from tests.interop.example_tables import DELTA_RS, LAKEHOUSE, Examples, described, table_of
from tests.slow_cases import some_slow

EXAMPLES = Examples()

TARGET = {"x": [1, 2, 3], "y": [4, 5, 6]}
ITEMS = {"id": ["1", "2", "3"], "deleted": [False, False, False], "price": [10.0, 15.0, 20.0]}


# Restoring.


def three_versions(m: Any, path: str) -> Any:
    for mode, numbers in (("error", [1]), ("append", [2]), ("overwrite", [3])):
        m.write_deltalake(path, pa.table({"id": numbers}), mode=mode)
    return m.DeltaTable(path)


@EXAMPLES.add
def a_restore_of_a_version(m: Any, path: str) -> Any:
    table = three_versions(m, path)
    metrics = table.restore(1)
    return metrics["numRestoredFile"], metrics["numRemovedFile"], table.version()


@EXAMPLES.add
def a_restore_after_a_restore(m: Any, path: str) -> Any:
    table = three_versions(m, path)
    table.restore(0)
    table.restore(2)
    return table.version(), table.history(1)[0]["operation"]


# Altering.


@EXAMPLES.add
def constraints_are_added(m: Any, path: str) -> Any:
    table = table_of(m, path, {"id": [1, 2], "value": [6, 7]})
    table.alter.add_constraint({"value_gt_5": "value > 5"})
    return table.metadata().configuration, table.version()


@EXAMPLES.add
def a_row_that_violates_a_constraint_is_refused(m: Any, path: str) -> Any:
    table = table_of(m, path, {"id": [1, 2]})
    table.alter.add_constraint({"id_gt_0": "id > 0"})
    try:
        m.write_deltalake(table, pd.DataFrame({"id": [-1]}), mode="append")
    except Exception as error:
        return isinstance(error, (DELTA_RS_ERROR, LAKEHOUSE.DeltaError))


@EXAMPLES.add
def constraints_are_dropped(m: Any, path: str) -> Any:
    table = table_of(m, path, {"id": [1, 2], "value": [6, 7]})
    table.alter.add_constraint({"value_gt_5": "value > 5"})
    table.alter.drop_constraint(name="value_gt_5")
    return table.metadata().configuration


@EXAMPLES.add
def columns_are_added(m: Any, path: str) -> Any:
    table = table_of(m, path, {"id": [1, 2]})
    integer = m.PrimitiveType("integer")
    table.alter.add_columns([m.Field("baz", m.StructType([m.Field("bar", integer)])), m.Field("bar", integer)])
    return repr(table.schema())


@EXAMPLES.add
def a_column_allows_null(m: Any, path: str) -> Any:
    table = m.DeltaTable.create(path, m.Schema([m.Field("id", "long", nullable=False)]))
    table.alter.drop_column_not_null("id")
    return repr(table.schema())


@EXAMPLES.add
def a_feature_is_added(m: Any, path: str) -> Any:
    table = table_of(m, path, {"id": [1, 2]})
    table.alter.add_feature(m.TableFeatures.AppendOnly, allow_protocol_versions_increase=True)
    return table.protocol().min_writer_version, "appendOnly" in table.protocol().writer_features


@EXAMPLES.add
def a_feature_that_needs_another_version(m: Any, path: str) -> Any:
    table = table_of(m, path, {"id": [1, 2]})
    try:
        table.alter.add_feature(m.TableFeatures.AppendOnly)
    except Exception:
        return table.version()


@EXAMPLES.add
def properties_are_set(m: Any, path: str) -> Any:
    table = table_of(m, path, ITEMS)
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    return table.metadata().configuration, table.protocol().min_writer_version


@EXAMPLES.add
def properties_of_ones_own_are_set(m: Any, path: str) -> Any:
    table = table_of(m, path, ITEMS)
    table.alter.set_table_properties({"owner": "sales"}, raise_if_not_exists=False)
    return table.metadata().configuration


@EXAMPLES.add
def the_table_gets_a_name(m: Any, path: str) -> Any:
    table = table_of(m, path, ITEMS)
    table.alter.set_table_name("new_table_name")
    table.alter.set_table_description("new_table_description")
    return table.metadata().name, table.metadata().description


@EXAMPLES.add
def a_column_gets_metadata(m: Any, path: str) -> Any:
    table = table_of(m, path, ITEMS)
    table.alter.set_column_metadata("price", {"comment": "in EUR"})
    return [(field.name, field.metadata) for field in table.schema().fields]


# Writing.


@EXAMPLES.add
def appends_and_overwrites(m: Any, path: str) -> Any:
    for mode, numbers in (("error", [1, 2, 3]), ("overwrite", [4]), ("append", [5])):
        m.write_deltalake(path, pd.DataFrame({"x": numbers}), mode=mode)
    return m.DeltaTable(path).version()


@EXAMPLES.add
def an_overwrite_of_a_partition(m: Any, path: str) -> Any:
    m.write_deltalake(path, pd.DataFrame({"x": [1, 2, 3], "y": ["a", "a", "b"]}), partition_by=["y"])
    table = m.DeltaTable(path)
    m.write_deltalake(table, pd.DataFrame({"x": [100], "y": ["b"]}), predicate="y = 'b'", mode="overwrite")
    return table.version()


@EXAMPLES.add
def an_overwrite_by_a_predicate(m: Any, path: str) -> Any:
    m.write_deltalake(path, pa.table({"id": [1, 2, 3], "value": ["a", "b", "c"]}))
    m.write_deltalake(path, pa.table({"id": [1], "value": ["z"]}), mode="overwrite", predicate="id = 1")


@EXAMPLES.add
def an_overwrite_with_another_schema(m: Any, path: str) -> Any:
    m.write_deltalake(path, pa.table({"foo": [1, 2], "bar": ["a", "b"]}))
    m.write_deltalake(path, pa.table({"foo": ["c"]}), mode="overwrite", schema_mode="overwrite")


@EXAMPLES.add
def a_column_is_dropped_by_an_overwrite(m: Any, path: str) -> Any:
    m.write_deltalake(path, pd.DataFrame({"first_name": ["bob", "li", "leah"], "age": [47, 23, 51]}))
    frame = m.DeltaTable(path).to_pandas().drop(columns=["age"])
    m.write_deltalake(path, frame, mode="overwrite", schema_mode="overwrite")
    return sorted(m.DeltaTable(path, version=0).to_pandas()["age"])


@EXAMPLES.add
def an_append_with_a_new_column(m: Any, path: str) -> Any:
    m.write_deltalake(path, pa.table({"foo": [1, 2]}))
    m.write_deltalake(path, pa.table({"foo": [3], "bar": ["c"]}), mode="append", schema_mode="merge")


@EXAMPLES.add
def an_append_with_writer_properties(m: Any, path: str) -> Any:
    properties = m.WriterProperties(compression="ZSTD", compression_level=3, max_row_group_size=1000)
    m.write_deltalake(path, pa.table(TARGET), writer_properties=properties)


@EXAMPLES.add
def a_write_with_properties_of_the_commit(m: Any, path: str) -> Any:
    properties = m.CommitProperties(custom_metadata={"nightly": "yes"})
    m.write_deltalake(path, pa.table(TARGET), commit_properties=properties)
    return m.DeltaTable(path).history(1)[0]["nightly"]


@EXAMPLES.add
def an_application_writes_once(m: Any, path: str) -> Any:
    properties = m.CommitProperties(app_transactions=[m.Transaction("nightly", 1)])
    m.write_deltalake(path, pa.table(TARGET), commit_properties=properties)
    return m.DeltaTable(path).transaction_version("nightly")


# Optimizing.


def two_files(m: Any, path: str) -> Any:
    m.write_deltalake(path, pa.table({"x": [1], "y": [4]}))
    m.write_deltalake(path, pa.table({"x": [2], "y": [5]}), mode="append")
    return m.DeltaTable(path)


@EXAMPLES.add
def small_files_are_merged(m: Any, path: str) -> Any:
    metrics = two_files(m, path).optimize.compact(min_commit_interval=dt.timedelta(minutes=10))
    return metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["totalConsideredFiles"]


@EXAMPLES.add
def the_small_files_of_a_partition_are_merged(m: Any, path: str) -> Any:
    for hour in range(6):
        rows = pa.table({"date": [dt.date(2021, 1, 1 + hour % 2)], "value": [hour]})
        m.write_deltalake(path, rows, partition_by=["date"], mode="append")
    table = m.DeltaTable(path)
    metrics = table.optimize.compact(partition_filters=[("date", "=", "2021-01-01")])
    counts = pa.table(table.get_add_actions(flatten=True))["partition.date"].to_pandas().value_counts().sort_index()
    assert len(table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)) == 3
    return metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["partitionsOptimized"], counts.tolist()


@EXAMPLES.add
def a_manifest_lists_the_files(m: Any, path: str) -> Any:
    two_files(m, path).generate()
    return len((Path(path) / "_symlink_format_manifest" / "manifest").read_text().split())


@EXAMPLES.add
def rows_are_z_ordered(m: Any, path: str) -> Any:
    metrics = two_files(m, path).optimize.z_order(["x"], min_commit_interval=dt.timedelta(minutes=10))
    return metrics["numFilesAdded"], metrics["numFilesRemoved"], metrics["totalConsideredFiles"]


@EXAMPLES.add
def a_vacuum_lists_files(m: Any, path: str) -> Any:
    table = two_files(m, path)
    table.optimize.compact()
    return len(table.vacuum()), len(table.vacuum(retention_hours=0, enforce_retention_duration=False))


@EXAMPLES.add
def a_repair_removes_missing_files(m: Any, path: str) -> Any:
    table = two_files(m, path)
    (first,) = m.DeltaTable(path, version=0).file_uris()
    Path(first).unlink()
    repaired = table.repair(dry_run=False)
    return repaired["dry_run"], len(repaired["files_removed"])


DELTA_RS_ERROR = deltalake.exceptions.DeltaError


@pytest.mark.parametrize("name", some_slow([*EXAMPLES], 12))
def test_the_same_code_gives_the_same_table(name: str, tmp_path: Path) -> None:
    results = [EXAMPLES[name](m, str(tmp_path / side)) for m, side in ((LAKEHOUSE, "ours"), (DELTA_RS, "theirs"))]
    assert results[0] == results[1]
    assert described(str(tmp_path / "ours")) == described(str(tmp_path / "theirs"))
