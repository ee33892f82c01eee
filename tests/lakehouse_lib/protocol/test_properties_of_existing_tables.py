"""Errors name a way to set a property of an existing table, and this way works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

import lakehouse_lib
from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.protocol.table_properties import SET_BY
from tests.log_builder import edit
from tests.table_builder import longs

ROWS = longs(id=[1, 2])
REFUSALS: list[tuple[dict[str, str], Callable[[DeltaTable], object], str, dict[str, str]]] = [
    (
        {"delta.appendOnly": "true"},
        lambda table: table.delete("id = 1"),
        "set delta.appendOnly to false",
        {"delta.appendOnly": "false"},
    ),
    (
        {},
        lambda table: table.vacuum(retention_hours=1),
        "set delta.deletedFileRetentionDuration by",
        {"delta.deletedFileRetentionDuration": "interval 1 hours"},
    ),
    (
        {"delta.logRetentionDuration": "interval 1 days"},
        lambda table: table.cleanup_metadata(),
        "set the first property to at least the second",
        {"delta.logRetentionDuration": "interval 7 days"},
    ),
]


@pytest.mark.parametrize(("before", "verb", "way_out", "after"), REFUSALS, ids=[refusal[2] for refusal in REFUSALS])
def test_the_hint_of_a_refusal_works(
    tmp_path: Path,
    before: dict[str, str],
    verb: Callable[[DeltaTable], object],
    way_out: str,
    after: dict[str, str],
) -> None:
    write_deltalake(tmp_path, ROWS, configuration=before)
    with pytest.raises(DeltaError, match=str(tmp_path)) as refused:
        verb(DeltaTable(tmp_path))
    assert way_out in str(refused.value.hint)
    assert SET_BY in str(refused.value.hint)
    DeltaTable(tmp_path).alter.set_table_properties(after)
    verb(DeltaTable(tmp_path))


@pytest.mark.parametrize(
    ("wrong", "right", "verb"),
    [
        ({"delta.isolationLevel": "Serial"}, "Serializable", lambda table: table.delete("id = 1")),
        ({"delta.deletedFileRetentionDuration": "a week"}, "interval 1 weeks", lambda table: table.vacuum()),
    ],
    ids=["isolation", "retention"],
)
def test_a_value_that_is_not_valid_is_replaced(
    tmp_path: Path, wrong: dict[str, str], right: str, verb: Callable[[DeltaTable], object]
) -> None:
    write_deltalake(tmp_path, ROWS)
    edit(tmp_path, 0, lambda action: action.get("metaData", {}).update(configuration=wrong))
    (tmp_path / "_delta_log" / f"{0:020}.crc").unlink(missing_ok=True)
    with pytest.raises(DeltaError, match=next(iter(wrong.values()))) as refused:
        verb(DeltaTable(tmp_path))
    assert SET_BY in str(refused.value.hint)
    table = DeltaTable(tmp_path)
    table.alter.set_table_properties(dict.fromkeys(wrong, right))
    verb(table)


@pytest.mark.parametrize("package", [deltalake, lakehouse_lib], ids=lambda module: module.__name__)
@pytest.mark.parametrize("how", [{"mode": "append"}, {"mode": "overwrite", "schema_mode": "overwrite"}], ids=str)
def test_an_existing_table_keeps_its_own_properties_in_both_packages(
    tmp_path: Path, package: Any, how: dict[str, str]
) -> None:
    properties = {"delta.logRetentionDuration": "interval 7 days"}
    package.write_deltalake(tmp_path, ROWS, name="first", configuration=properties)
    package.write_deltalake(tmp_path, ROWS, name="second", configuration={"delta.appendOnly": "true"}, **how)
    metadata = DeltaTable(tmp_path).metadata()
    assert (metadata.name, metadata.configuration) == ("first", properties)


def test_replacing_a_table_removes_its_rows_and_sets_new_properties(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS, configuration={"delta.logRetentionDuration": "interval 7 days"})
    made = DeltaTable.create(tmp_path, ROWS.schema, mode="overwrite", configuration={"delta.appendOnly": "true"})
    assert (made.count(), made.metadata().configuration) == (0, {"delta.appendOnly": "true"})
