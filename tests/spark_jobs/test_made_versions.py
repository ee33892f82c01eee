"""The version that a job reports is the one it has made, whatever others have committed since."""

import importlib
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake

LINES = {
    "compact": [],
    "z_order": ["--columns", "a"],
    "delete_rows": ["--predicate-file", "predicate.sql"],
}


@pytest.mark.parametrize("job", LINES)
def test_a_job_reports_the_version_that_it_made(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("predicate.sql").write_text("a = 1")
    table = str(tmp_path / "t")
    for number in range(3):
        write_deltalake(table, pa.table({"a": [number]}), mode="append")
    move_on = DeltaTable._move_on

    def after_others(self: DeltaTable) -> None:
        deltalake.write_deltalake(table, pa.table({"a": [9]}), mode="append")
        move_on(self)

    monkeypatch.setattr(DeltaTable, "_move_on", after_others)
    module = importlib.import_module(f"spark_jobs.{job}")
    run = module.prepare(module.arguments().parse_args(["--table", table, *LINES[job]]))
    assert run(spark)["version"] == 3
    assert deltalake.DeltaTable(table).version() == 4
