"""The benchmark of loads in its smallest form: all contestants write the same rows."""

import pytest

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
