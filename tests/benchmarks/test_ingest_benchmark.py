"""The benchmarks of loads in their smallest form."""

import pytest

from benchmarks.ingest import state
from benchmarks.ingest.__main__ import CASES, CONTESTANTS, main

pytestmark = pytest.mark.slow


def test_all_contestants_write_the_same_rows(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(CASES, "small files", CASES["small files"]._replace(files=20))
    cases = ["csv", "small files", "json", "parquet"]
    assert main(["--megabytes", "0.2", "--runs", "1", "--home", str(tmp_path), "--cases", *cases]) == 0
    report = capsys.readouterr().out
    for contestant in CONTESTANTS:
        assert report.count(f"| {contestant} ") == len(cases)
    assert list(tmp_path.iterdir()) == []


def test_loads_of_a_source_with_many_loaded_files_are_measured(tmp_path, capsys):
    assert state.main(["--files", "100", "--home", str(tmp_path)]) == 0
    assert "| nothing new   | 100 loaded files |" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
