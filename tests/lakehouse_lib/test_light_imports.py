"""The imports of a process before it reads data: few modules, and not pandas."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import write_deltalake

#: Verbs that read only the log, as expressions with an open table. Conditions on files import pandas.
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


def run(code: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("writer", [write_deltalake, deltalake.write_deltalake], ids=["ours", "deltalake's"])
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


def test_the_library_alone_loads_nothing_of_others() -> None:
    code = "import json, sys, lakehouse_lib; print(json.dumps([*sys.modules]))"
    assert not {"pyarrow", "numpy", "pandas", "sqlglot", "pydantic", "boto3", "pyspark"} & set(run(code))


def test_a_table_loads_no_parser_and_no_model_of_others() -> None:
    code = "import json, sys; from lakehouse_lib import DeltaTable, write_deltalake; print(json.dumps([*sys.modules]))"
    assert not {"pandas", "sqlglot", "pydantic", "boto3", "pyspark", "asyncio"} & set(run(code))
