"""The arguments of the ``deltalake`` package: verbs take them in its order, and refuse those that would change rows."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import deltalake.table
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.table.verbs.merger import TableMerger
from lakehouse_lib.table.verbs.optimizer import TableOptimizer
from tests.peers import parquet_files

MERGER = [name for name in vars(deltalake.table.TableMerger) if not name.startswith("_")]
VERBS = [
    *((deltalake.DeltaTable, DeltaTable, name) for name in ("create", "delete", "update", "merge", "repair")),
    *((deltalake.table.TableOptimizer, TableOptimizer, name) for name in ("compact", "z_order")),
    *((deltalake.table.TableMerger, TableMerger, name) for name in MERGER),
]


def parameters(function: Callable[..., Any], kind: Any) -> list[str]:
    return [name for name, each in inspect.signature(function).parameters.items() if each.kind == kind]


@pytest.mark.parametrize(("package_class", "own_class", "name"), VERBS, ids=lambda each: str(each))
def test_parameters_have_the_names_and_the_order_of_the_package(package_class: Any, own_class: Any, name: str) -> None:
    expected, verb = getattr(package_class, name), getattr(own_class, name)
    by_position, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    assert parameters(verb, by_position) == parameters(expected, by_position)
    assert set(parameters(verb, by_name)) >= set(parameters(expected, by_name))


def parts(root: Path) -> DeltaTable:
    """A table of two files in each of three partitions."""
    for _ in range(2):
        rows = pa.table({"part": [1, 2, 3] * 10, "day": [dt.date(2024, 1, 1)] * 30, "id": range(30)})
        write_deltalake(root, rows, mode="append", partition_by=["part", "day"])
    return DeltaTable(root)


@pytest.mark.parametrize(
    "filters",
    [
        [("part", "=", "1")],
        [("part", "=", 2), ("day", "=", "2024-01-01")],
        [("part", "in", ["1", "3"])],
        [("part", ">=", "2")],
        [("day", "!=", "2024-01-01")],
        [],
        None,
    ],
)
@pytest.mark.parametrize("verb", ["compact", "z_order"])
def test_partition_filters_choose_the_files_that_delta_rs_chooses(tmp_path: Path, verb: str, filters: Any) -> None:
    arguments = (["id"],) if verb == "z_order" else ()
    tuning = (None, 2, 1 << 30, 1 << 30, dt.timedelta(minutes=1))
    metrics = getattr(parts(tmp_path / "ours").optimize, verb)(*arguments, filters, *tuning)
    parts(tmp_path / "theirs")
    table = deltalake.DeltaTable(tmp_path / "theirs")
    expected = getattr(table.optimize, verb)(*arguments, filters, *tuning)
    for metric in ("numFilesAdded", "numFilesRemoved"):
        assert metrics[metric] == expected[metric]
    folders = [sorted(Path(each).parent.name for each in files(tmp_path / name)) for name, files in PATHS]
    assert folders[0] == folders[1]


PATHS: list[tuple[str, Callable[[Path], list[str]]]] = [
    ("ours", lambda root: DeltaTable(root).file_uris()),
    ("theirs", lambda root: deltalake.DeltaTable(root).file_uris()),
]


def test_values_that_would_silently_become_null_are_refused(tmp_path: Path) -> None:
    table = parts(tmp_path)
    before = parquet_files(tmp_path)
    source = pa.table({"id": [1], "text": ["x"]})
    merger = table.merge(source, "s.id = t.id", "s", "t", False, False)
    for verb in (
        lambda: table.update({"id": "'x'"}, None, None, None, False),
        lambda: merger.when_matched_update({"id": "s.text"}).execute(),
    ):
        with pytest.raises(InvalidPredicateError, match="is not valid"):
            verb()
    assert parquet_files(tmp_path) == before
    assert table.update({"id": "'5'"}, error_on_type_mismatch=False)["num_updated_rows"] > 0


def test_tuning_arguments_of_delta_rs_have_no_effect(tmp_path: Path) -> None:
    table = parts(tmp_path)
    source = pa.table({"part": [9], "day": [dt.date(2024, 1, 1)], "id": [99]})
    merger = table.merge(source, "s.id = t.id", "s", "t", False, True, None, False, 1 << 20, 1 << 20)
    assert merger.when_not_matched_insert_all().execute()["num_target_rows_inserted"] == 1
    DeltaTable.create(tmp_path / "new", table.schema(), configuration={"own.key": "1"}, raise_if_key_not_exists=False)
    assert DeltaTable(tmp_path / "new").metadata().configuration == {"own.key": "1"}
