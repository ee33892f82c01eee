"""A proof finds files of a mapped table from before its schema was overwritten, or it is not clean."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.privacy.purge import prove, purge

PEOPLE = pa.table({"email": ["a", "b"], "x": [1, 2]})
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.mark.parametrize("partition_by", [None, ["email"]], ids=["column", "partition column"])
def test_a_column_of_the_same_name_and_type_is_found_and_purged(tmp_path: Path, partition_by: list[str] | None) -> None:
    write_deltalake(tmp_path, PEOPLE, configuration=MAPPED, partition_by=partition_by)
    others = pa.table({"email": ["c"], "x": [1]})
    write_deltalake(tmp_path, others, mode="overwrite", schema_mode="overwrite", partition_by=partition_by)
    assert prove(str(tmp_path), "email = 'a'").rows == 1
    assert purge(str(tmp_path), "email = 'a'").files
    assert prove(str(tmp_path), "email = 'a'").clean
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pylist() == others.to_pylist()


@pytest.mark.parametrize("partition_by", [None, ["email"]], ids=["column", "partition column"])
@pytest.mark.parametrize("configuration", [MAPPED, {}], ids=["mapped", "not mapped any more"])
def test_a_file_that_may_have_the_column_under_another_name_is_not_clean(
    tmp_path: Path, partition_by: list[str] | None, configuration: dict[str, str]
) -> None:
    write_deltalake(tmp_path, PEOPLE, configuration=MAPPED, partition_by=partition_by)
    schema = pa.schema([("email", pa.int64()), ("x", pa.int64())])
    if configuration:
        rows = pa.table({"email": [7], "x": [1]}, schema=schema)
        write_deltalake(tmp_path, rows, mode="overwrite", schema_mode="overwrite", partition_by=partition_by)
    else:
        DeltaTable.create(tmp_path, schema, mode="overwrite")
    proof = prove(str(tmp_path), "email = 5")
    assert (proof.clean, proof.rows, proof.skipped) == (False, 0, {})
    assert proof.unreadable
