"""A job reports the version that it has committed, even if other writers have committed since."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import write_deltalake
from lakehouse_lib.catalogue.operation import TableOperation

LINES = {
    "compact": [],
    "z_order": ["--columns", "a"],
    "delete_rows": ["--predicate-file", "predicate.sql"],
    "update_rows": ["--predicate-file", "predicate.sql", "--updates", '{"a": "a + 5"}'],
    "add_constraint": ["--constraints", '{"positive": "a >= 0"}'],
}


@pytest.mark.parametrize("job", LINES)
def test_a_job_reports_the_version_that_it_committed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("predicate.sql").write_text("a = 1")
    table = str(tmp_path / "t")
    for number in range(3):
        write_deltalake(table, pa.table({"a": [number]}), mode="append")
    load = TableOperation.load

    def before_others(operation: TableOperation) -> Callable[..., Any]:
        def verb(**arguments: Any) -> Any:
            result = load(operation)(**arguments)
            deltalake.write_deltalake(table, pa.table({"a": [9]}), mode="append")
            return result

        return verb

    monkeypatch.setattr(TableOperation, "load", before_others)
    module = importlib.import_module(f"spark_jobs.{job}")
    run = module.prepare(module.arguments().parse_args(["--table", table, *LINES[job]]))
    assert run(spark)["version"] == 3
    assert deltalake.DeltaTable(table).version() == 4
