"""Arguments of a wrong Python type are refused with an error of the library, and nothing is committed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, TableFeatures, write_deltalake
from lakehouse_lib.errors import InvalidArgumentError

CALLS: dict[str, Callable[[DeltaTable], Any]] = {
    "apply: properties": lambda t: t.alter.apply([{"set_table_properties": {"properties": 5}}]),
    "apply: names": lambda t: t.alter.apply([{"unset_table_properties": {"names": 5}}]),
    "apply: feature": lambda t: t.alter.apply([{"drop_feature": {"feature": ["x"]}}]),
    "unset": lambda t: t.alter.unset_table_properties([["x"]]),  # type: ignore[list-item]
    "drop": lambda t: t.alter.drop_feature(["a"]),  # type: ignore[arg-type]
    "except_cols": lambda t: t.merge(pa.table({"id": [1]}), "s.id = t.id", "s", "t").when_matched_update_all(
        except_cols=5  # type: ignore[arg-type]
    ),
    "keep_versions": lambda t: t.vacuum(keep_versions=5),  # type: ignore[arg-type]
    "actions": lambda t: t.create_write_transaction(5, "append", t.schema()),  # type: ignore[arg-type]
    "most_commits": lambda t: t.schema_changes(0),
}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    write_deltalake(tmp_path, pa.table({"id": [1, 2]}), configuration={"delta.enableDeletionVectors": "true"})
    return DeltaTable(tmp_path)


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_type_is_refused(table: DeltaTable, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"5|'x'|'a'|0"):
        CALLS[name](table)
    assert DeltaTable(table.table_uri).version() == 0


def test_apply_rewrites_no_files_for_a_feature_by_its_member(table: DeltaTable) -> None:
    with pytest.raises(InvalidArgumentError, match="may read rows"):
        table.alter.apply([{"drop_feature": {"feature": TableFeatures.DeletionVectors}}])
    assert DeltaTable(table.table_uri).version() == 0


def test_apply_returns_the_version_of_its_own_changes(table: DeltaTable) -> None:
    alter = table.alter
    alter.set_table_properties({"delta.appendOnly": "true"})
    result = alter.apply([{"drop_constraint": {"name": "none", "raise_if_not_exists": False}}])
    assert (result.read_version, result.version) == (1, None)


def test_one_column_of_the_files_may_be_a_name(table: DeltaTable) -> None:
    assert table.files(columns="path").column_names == ["path"]
