"""The imports of a process: few modules, and not pandas, which takes a quarter of a second."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from tests.slow_cases import some_slow

#: Verbs that read only the log, as expressions with an open table.
VERBS = (
    "table.version()",
    "table.schema().to_arrow()",
    "table.metadata()",
    "table.protocol()",
    "table.history()",
    "table.transaction_version('app')",
    "table.detail()",
    "table.health().to_dict()",
    "table.files()",
    "table.file_uris()",
    "table.get_add_actions()",
    "table.get_add_actions(flatten=True)",
    "table.count()",
    "table.update_incremental()",
    "table.load_as_version(1)",
    "table.vacuum(dry_run=True)",
    "table.cleanup_metadata(dry_run=True)",
    "table.repair(dry_run=True)",
    "table.create_checkpoint()",
    "table.restore(0, dry_run=True)",
)

FIRST_CALL = """
import json, sys
from lakehouse_lib import DeltaTable
table = DeltaTable(sys.argv[1])
eval(sys.argv[2])
print(json.dumps("pandas" in sys.modules))
"""


CHANGES = """
import json, sys
import pyarrow as pa
from lakehouse_lib import DeltaTable
from lakehouse_lib.arrow.values import int64s
table = DeltaTable(sys.argv[1])
table.update(updates={"share": "share + 1.5"}, predicate="id = 1")
source = pa.Table.from_arrays([int64s([2, 3, 4])], ["id"])
merger = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
merger.when_matched_update({"day": "'c'"}).when_not_matched_insert({"id": "s.id"}).execute()
table.delete("id = 3")
print(json.dumps("pandas" in sys.modules))
"""


def run(code: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("writer", [deltalake.write_deltalake, write_deltalake])
def test_the_first_call_of_a_metadata_verb_loads_no_pandas(tmp_path: Path, writer: Any) -> None:
    at = pa.array([0, 1, 2], pa.timestamp("us", "UTC"))
    rows = pa.table({"day": ["a", "b", None], "id": [1, 2, 3], "at": at, "share": [0.5, None, 2.0]})
    uri = str(tmp_path / "t")
    for _ in range(2):
        writer(uri, rows, mode="append", partition_by=["day"])
    deltalake.DeltaTable(uri).create_checkpoint()
    writer(uri, rows, mode="append", partition_by=["day"])
    with ThreadPoolExecutor(2) as threads:
        loads = dict(zip(VERBS, threads.map(lambda verb: run(FIRST_CALL, uri, verb), VERBS), strict=True))
    assert loads == dict.fromkeys(VERBS, False)


@pytest.mark.parametrize("marks", some_slow(["true", "false"], 1))
def test_changes_of_rows_load_no_pandas(tmp_path: Path, marks: str) -> None:
    rows = pa.table({"day": ["a", "b", None], "id": [1, 2, 3], "share": [0.5, None, 2.0]})
    properties = {"delta.enableDeletionVectors": marks}
    write_deltalake(str(tmp_path), rows, configuration=properties)
    assert run(CHANGES, str(tmp_path)) is False
    table = deltalake.DeltaTable(str(tmp_path)) if marks == "false" else DeltaTable(str(tmp_path))
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 4]


@pytest.mark.parametrize("full", [False, True])
def test_a_vacuum_that_deletes_files_loads_no_pandas(tmp_path: Path, full: bool) -> None:
    for _ in range(2):
        write_deltalake(str(tmp_path), pa.table({"day": ["a"], "id": [1]}), partition_by=["day"], mode="overwrite")
    call = f"table.vacuum(0, dry_run=False, enforce_retention_duration=False, full={full})"
    assert run(FIRST_CALL, str(tmp_path), call) is False
    assert len(list(tmp_path.glob("day=a/*.parquet"))) == 1


def test_the_library_imports_no_dependency_by_itself() -> None:
    code = "import json, sys, lakehouse_lib; print(json.dumps([*sys.modules]))"
    assert not {"pyarrow", "numpy", "pandas", "sqlglot", "pydantic", "boto3", "pyspark"} & set(run(code))


def test_the_table_class_imports_no_optional_dependency() -> None:
    code = "import json, sys; from lakehouse_lib import DeltaTable, write_deltalake; print(json.dumps([*sys.modules]))"
    assert not {"pandas", "sqlglot", "pydantic", "boto3", "pyspark", "asyncio"} & set(run(code))


#: Packages that a verb imports only if it needs them.
_PARTS = tuple(
    f"lakehouse_lib.{name}." for name in ("operations", "expressions", "engine.parquet", "data_skipping.file_pruning")
)


@pytest.mark.parametrize(
    ("call", "parts"), [("files()", ()), ("vacuum(dry_run=True)", ("lakehouse_lib.operations.",)), ("history()", ())]
)
def test_verbs_that_read_only_the_log_import_no_engine_and_no_expressions(
    tmp_path: Path, call: str, parts: tuple[str, ...]
) -> None:
    rows = pa.table({"day": ["a", "b"], "id": [1, 2]})
    write_deltalake(str(tmp_path), rows, partition_by=["day"])
    DeltaTable(str(tmp_path)).create_checkpoint()
    write_deltalake(str(tmp_path), rows, mode="append")
    code = "import json, sys; from lakehouse_lib import DeltaTable; table = DeltaTable(sys.argv[1]); eval(sys.argv[2])"
    names = run(f"{code}; print(json.dumps([*sys.modules]))", str(tmp_path), f"table.{call}")
    imported = {part for part in _PARTS for name in names if f"{name}.".startswith(part)}
    assert imported == set(parts)


@pytest.mark.parametrize(
    "package", ["", ".data_skipping", ".expressions", ".features", ".schema", ".statistics", ".table", ".transaction"]
)
def test_every_name_of_a_package_is_imported_on_use(package: str) -> None:
    """A name that is equal to the name of a module would be hidden by this module, once it is imported."""
    module = import_module(f"lakehouse_lib{package}")
    values = {name: getattr(module, name) for name in module.__all__}
    assert not [name for name, value in values.items() if isinstance(value, ModuleType)]
    assert not values.keys() & {member.name for member in iter_modules(module.__path__)}
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        _ = module.missing
