"""ALTER of constraints: the rows that are read, constraints that are refused, and constraints of other engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import ConstraintViolatedError, InvalidArgumentError, InvalidPredicateError
from lakehouse_lib.operations.alter.constraints import plan_constraints
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import open_store
from tests.log_builder import edit
from tests.peers import parquet_files

ROWS = pa.table(
    {"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None], "s": [{"x": 1}, {"x": 2}, None]},
    schema=pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("s", pa.struct([("x", pa.int64())]))]
    ),
)


def test_files_whose_statistics_satisfy_the_constraint_are_not_read(tmp_path: Path) -> None:
    for start in (0, 100, 200):
        write_deltalake(tmp_path, pa.table({"id": range(start, start + 100)}), mode="append")
    snapshot = load_snapshot(open_store(tmp_path))
    for condition, files in (("id >= 0", 0), ("id < 150", 2), ("id BETWEEN 0 AND 99", 2), ("id >= 0 OR id IS NULL", 0)):
        (violation,) = plan_constraints(snapshot, {"c": condition}).violations
        assert len(snapshot.prune(violation)) == files, condition
    for file in parquet_files(tmp_path):
        file.unlink()
    DeltaTable(tmp_path).alter.add_constraint({"c": "id >= 0"})


def test_rows_that_a_deletion_vector_hides_do_not_count(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.enableDeletionVectors": "true"})
    table = DeltaTable(tmp_path)
    table.delete("id = 1")
    with pytest.raises(ConstraintViolatedError, match=r"CHECK c \(id > 2\): 1 row, such as \{'id': 2"):
        table.alter.add_constraint({"c": "id > 2"})
    table.alter.add_constraint({"c": "id > 1"})
    assert table.metadata().configuration["delta.constraints.c"] == "id > 1"


def test_ten_rows_of_many_are_shown(tmp_path: Path) -> None:
    for start in range(0, 40, 4):
        write_deltalake(tmp_path, pa.table({"id": range(start, start + 4)}), mode="append")
    with pytest.raises(ConstraintViolatedError) as refused:
        DeltaTable(tmp_path).alter.add_constraint({"c": "id < 3"})
    assert refused.value.message.startswith("the data violates CHECK c (id < 3): 37 rows, such as {'id': ")
    assert refused.value.message.count("'id': ") == 10


@pytest.mark.parametrize(
    ("constraints", "error"),
    [
        ({"c": "id +"}, InvalidPredicateError),
        ({"c": "id + 1"}, InvalidPredicateError),
        ({"c": "max(id) > 0"}, InvalidPredicateError),
        ({"c": 5}, InvalidArgumentError),
        ({"": "id > 0"}, InvalidArgumentError),
        ({"c": "id > 0", "C": "id > 1"}, InvalidArgumentError),
    ],
    ids=str,
)
def test_constraints_that_are_refused(tmp_path: Path, constraints: Any, error: type[Exception]) -> None:
    write_deltalake(tmp_path, ROWS)
    with pytest.raises(error):
        DeltaTable(tmp_path).alter.add_constraint(constraints)
    assert DeltaTable(tmp_path).version() == 0


def test_names_in_double_quotes_are_stored_as_spark_reads_them(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a b": [1], "note": ["x"]}))
    table = DeltaTable(tmp_path)
    for _ in range(2):  # the same constraint again changes nothing
        table.alter.add_constraint({"c": '"a b" > 0 AND note <> "\'"'})
        assert table.metadata().configuration == {"delta.constraints.c": '`a b` > 0 AND note <> "\'"'}
    with pytest.raises(ConstraintViolatedError):
        write_deltalake(table, pa.table({"a b": [-1], "note": ["x"]}), mode="append")


def test_constraints_that_cannot_be_read_are_dropped(tmp_path: Path) -> None:
    """Two constraints of another engine, neither of which this library can read."""
    write_deltalake(tmp_path, ROWS)
    edit(tmp_path, 0, lambda action: action.get("metaData", {}).update(configuration=dict(UNREADABLE)))
    (tmp_path / "_delta_log" / f"{0:020}.crc").unlink(missing_ok=True)
    table = DeltaTable(tmp_path)
    for name in ("a", "b"):
        with pytest.raises(InvalidPredicateError, match=rf"CHECK {name} .* is not valid"):
            write_deltalake(table, ROWS, mode="append")
        table.alter.set_table_name(name)
        table.alter.drop_constraint(name.upper())
    write_deltalake(table, ROWS, mode="append")
    assert table.count() == 6


UNREADABLE = {"delta.constraints.a": "id >", "delta.constraints.b": "gone > 0"}
