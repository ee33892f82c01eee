"""The smallest form of the benchmark runs, checks the results that it timed, and notices a wrong result."""

import shutil

import pytest
from deltalake import DeltaTable

from benchmarks import checks, data
from benchmarks.__main__ import VERBS, main

pytestmark = pytest.mark.slow


def test_a_small_benchmark_runs_and_reports(tmp_path, capsys):
    options = ["--rows", "2000", "--rounds", "1", "--engines", "arrow", "--home", str(tmp_path), "--verbs", *VERBS]
    assert main(options) == 0
    report = capsys.readouterr().out
    for title in (
        "compact 200 files",
        "z_order 200 files by customer and item",
        "delete one customer",
        "update one",
        "merge 200",
    ):
        assert title in report
    assert report.count("delta-rs  ") == report.count("arrow  ") == 10
    assert "files that a point predicate skips: customer" in report
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "orders-2000-big",
        "orders-2000-marked",
        "orders-2000-small",
    ]


def test_the_checksum_notices_one_changed_value(tmp_path):
    small, big, marked = data.make(tmp_path, 400)
    assert checks.content(marked) == checks.content(big)
    assert checks.content(small) == checks.content(big)
    assert len(checks.files(small)) == 200
    assert len(checks.files(big)) == 4
    copied = tmp_path / "copied"
    data.copy(big, copied)
    DeltaTable(copied).update(updates={"item": "item + 1"}, predicate="order_id = 7")
    assert checks.content(copied) != checks.content(big)
    assert checks.content(copied, "order_id <> 7") == checks.content(big, "order_id <> 7")
    shutil.rmtree(copied)
    assert checks.content(big) == checks.content(small)


def test_rows_that_do_not_divide_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--rows", "1001"])
    assert "multiple of 200" in capsys.readouterr().err
