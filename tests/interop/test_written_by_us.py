"""delta-rs and DuckDB read tables of this library with the same rows at every version.

The matrix has a table for each feature and verb; `make interop` also lets delta-spark read and write them.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pytest

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.features import FEATURES
from lakehouse_lib.table.delta_table import DeltaTable
from lakehouse_lib.table.write import write_deltalake
from tests.interop.matrix.lines import LINES
from tests.interop.matrix.our_table import OurTable
from tests.interop.matrix.outcomes import OTHER_ROWS, features_of, other_readers, reading, recorded
from tests.interop.rows import PARTITION_COLUMNS, rows
from tests.peers import files_delta_rs, parquet_files, plain, read_delta_rs, read_duckdb
from tests.slow_cases import some_slow

#: Where other programs read files that Spark has written differently: Spark stores a NOT NULL member as optional, and
#: delta-rs does not read such a member of a null struct.
OF_SPARK_FILES = {
    "null structs with NOT NULL members": {
        "delta-rs": "field 'city' of type string has nulls. Can't cast to non-nullable field 'city' of type string"
    }
}
#: The lines of the matrix in a mixed order, so that the first ones are of all kinds.
MIXED = sorted(LINES, key=lambda title: crc32(title.encode()))


def assert_all_read_the_same(root: Path, expected: dict[int, pa.Table] | None = None) -> None:
    for version in range(DeltaTable(root).version() + 1):
        our_rows = plain(DeltaTable(root, version=version).to_pyarrow_table())
        assert our_rows.equals(read_delta_rs(root, version)), version
        assert our_rows.equals(read_duckdb(root, version)), version
        if expected is not None and version in expected:
            assert our_rows.equals(plain(expected[version])), version


@pytest.mark.parametrize("title", some_slow(MIXED, 6))
def test_the_tables_of_the_matrix(tmp_path: Path, title: str, engine: Engine) -> None:
    table = OurTable(tmp_path / "our table", engine)
    LINES[title](table)
    assert reading(table, lambda version: plain(table.open(version).to_pyarrow_table())) == ""
    outcomes = features_of(table) | other_readers(table)
    expected = {reader: recorded()[title][reader] for reader in outcomes}
    if engine.name == "spark":
        expected |= OF_SPARK_FILES.get(title, {})
    assert outcomes == expected


def test_the_matrix_is_complete_and_has_no_unknown_differences() -> None:
    record = recorded()
    assert list(record) == list(LINES)
    others = {(title, reader) for title, line in record.items() for reader, text in line.items() if OTHER_ROWS in text}
    # Both read column mapping wrongly: delta-rs where no list names the feature, DuckDB in partition columns.
    assert others == {
        ("column mapping by name, enabled on a table with rows", "delta-rs"),
        ("column mapping by name", "delta-rs"),
        ("column mapping by id", "delta-rs"),
        ("column mapping by name, partitioned", "delta-rs"),
        ("column mapping by name, partitioned", "DuckDB"),
        ("deletion vectors, column mapping and row tracking, partitioned", "DuckDB"),
    }


def test_every_feature_that_is_written_has_a_line() -> None:
    names = {name for line in recorded().values() for name in line["features"].split(", ")}
    assert {feature.name for feature in FEATURES.values() if feature.writes} - names == set()


def test_the_page_is_generated_from_the_record() -> None:
    pages = import_module("docs.interop_matrix")
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page(), "run `make docs`"


@pytest.mark.parametrize("partition", some_slow([None, *PARTITION_COLUMNS], 1))
def test_every_version_of_a_tables_life(tmp_path: Path, partition: str | None) -> None:
    root = tmp_path / "a table"
    first, second, third = rows(0, 40), rows(40, 30), rows(100, 25)
    write_deltalake(root, first, partition_by=[partition] if partition else None)
    write_deltalake(root, second, mode="append")
    table = DeltaTable(root)
    table.delete("id % 5 = 1 OR id = 64")
    table.optimize.compact()
    write_deltalake(root, third, mode="overwrite")
    write_deltalake(root, first, mode="append")
    table = DeltaTable(root)
    table.create_checkpoint()
    table.optimize.z_order(["id"])
    table.delete("id >= 100")
    both = pa.concat_tables([first, second])
    rows_left = pa.Table.from_pylist(
        [r for r in both.to_pylist() if r["id"] % 5 != 1 and r["id"] != 64], schema=both.schema
    )
    assert_all_read_the_same(
        root,
        {
            0: first,
            1: both,
            2: rows_left,
            3: rows_left,
            4: third,
            5: pa.concat_tables([third, first]),
            DeltaTable(root).version(): first,
        },
    )


def test_two_partition_columns_and_no_other_spelling(tmp_path: Path) -> None:
    data = rows(0, 60)
    write_deltalake(tmp_path / "t", data, partition_by=["text", "day"])
    assert_all_read_the_same(tmp_path / "t", {0: data})


def test_after_vacuum_the_folder_holds_what_delta_rs_lists(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for start in (0, 20, 40):
        write_deltalake(root, rows(start, 20), mode="append", partition_by=["text"])
    table = DeltaTable(root)
    table.optimize.compact()
    table.delete("id < 10")
    before = read_delta_rs(root)
    gone = table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert gone
    assert parquet_files(root) == files_delta_rs(root)
    assert read_delta_rs(root).equals(before)
    assert read_duckdb(root).equals(before)


def test_a_table_without_rows_and_a_table_of_deleted_rows(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, rows(0, 0))
    write_deltalake(root, rows(0, 5), mode="append")
    DeltaTable(root).delete()
    assert_all_read_the_same(root, {0: rows(0, 0), 1: rows(0, 5), 2: rows(0, 0)})


def test_every_reader_returns_null_for_new_columns_of_old_rows(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_deltalake(root, pa.table({"id": [1, 2]}))
    write_deltalake(root, pa.table({"id": [3], "more": ["x"]}), mode="append", schema_mode="merge")
    merged = pa.table({"id": [1, 2, 3], "more": [None, None, "x"]})
    assert_all_read_the_same(root, {1: merged})
    assert plain(DeltaTable(root).to_pyarrow_table()).column_names == ["id", "more"]


def test_delta_rs_writes_to_a_table_that_we_wrote(tmp_path: Path) -> None:
    import deltalake

    root = tmp_path / "t"
    write_deltalake(root, rows(0, 20), partition_by=["text"])
    deltalake.write_deltalake(root, rows(20, 20), mode="append")
    write_deltalake(root, rows(40, 20), mode="append")
    deltalake.DeltaTable(root).optimize.compact()
    deltalake.DeltaTable(root).delete("id = 3")
    DeltaTable(root).delete("id = 4")
    deltalake.DeltaTable(root).create_checkpoint()
    write_deltalake(root, rows(60, 5), mode="append")
    assert_all_read_the_same(root)
    assert set(DeltaTable(root).to_pyarrow_table()["id"].to_pylist()) == set(range(65)) - {3, 4}
