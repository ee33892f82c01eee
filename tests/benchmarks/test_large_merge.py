"""The smallest form of the large merge runs, checks the rows, and ends a process that exceeds its limit."""

import pytest
from deltalake import DeltaTable

from benchmarks import checks
from benchmarks.large_merge import tables
from benchmarks.large_merge.__main__ import main

pytestmark = pytest.mark.slow


def test_a_small_merge_is_measured_and_checked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.log.page.DOCS", tmp_path)
    page = tmp_path / "benchmarks.md"
    page.write_text(
        "\n".join(f"<!-- large-merge-{name} -->\n<!-- /large-merge-{name} -->" for name in ("vectors", "copy"))
    )
    options = ["--gigabytes", "0.002", "--megabytes", "0.1", "--home", str(tmp_path)]
    assert main([*options, "--write"]) == 0
    report = capsys.readouterr().out
    assert report.count("| arrow ") == report.count("| delta-rs ") == 2
    assert page.read_text().count("Median of 1") == 2
    copy, vectors = (tables.make(tmp_path, 0.002, kind) for kind in ("copy", "vectors"))
    size, plain_size = tables.sizes(copy)
    assert 2e6 <= size < 3e6
    assert plain_size > 1.3 * size
    assert checks.content(copy) == checks.content(vectors)
    assert DeltaTable(vectors).metadata().configuration == {"delta.enableDeletionVectors": "true"}
    assert tables.source(tmp_path, copy, 0.1) == tables.source(tmp_path, vectors, 0.1)
    assert not list(tmp_path.glob("*-arrow"))


def test_a_process_that_exceeds_its_limit_is_killed(tmp_path, capsys):
    options = ["--gigabytes", "0.002", "--megabytes", "0.1", "--home", str(tmp_path)]
    assert main([*options, "--tables", "copy", "--contestants", "arrow", "--memory", "20"]) == 1
    assert "killed after" in capsys.readouterr().out


def test_a_disk_that_is_too_small_is_refused_before_the_run(tmp_path):
    with pytest.raises(SystemExit, match=r"of free space; expected 2200000\.0 GB"):
        main(["--gigabytes", "1e6", "--home", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []
