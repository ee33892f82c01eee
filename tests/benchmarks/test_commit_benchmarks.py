"""The smallest form of the commit benchmark runs, ends at the right version, and prints its measurements."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks.commit import report, runs
from benchmarks.commit.__main__ import main
from benchmarks.commit.batches import ROWS, START_ROWS, batch, make, write_others
from benchmarks.commit.committers import NAMES, committer
from benchmarks.log import page, tables
from tests.s3 import server

pytestmark = pytest.mark.slow


def test_a_small_benchmark_runs_and_reports(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("LAKEHOUSE_BENCH_S3", raising=False)
    monkeypatch.setattr(server, "PROGRAM", tmp_path / "none")
    few = ["--rounds", "1", "--appends", "3", "--writers", "2", "--commits", "4", "--others", "5", "--sizes", "100"]
    assert main([*few, "--home", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for text in (
        "3 appends, each opens the table",
        "a checkpoint every 100 commits",
        "2 writers: commits per second",
        "lost races per commit",
        "Not measured: LAKEHOUSE_BENCH_S3",
        "delete of one row after 5 winning commits",
        "100 files: the first append",
        "an append that lost a race",
    ):
        assert text in shown
    assert "failed" not in "".join(path.read_text() for path in (tmp_path / "commit-results").iterdir())
    record = json.loads((tmp_path / "commit-results" / "sizes.json").read_text())
    contestants = record["result"]["100"]["questions"]["size"]["contestants"]
    assert {measurement["count"] for measurement in contestants.values()} == {tables.CHECKPOINT + tables.COMMITS + 9}
    docs = tmp_path / "page.md"
    docs.write_text("\n".join(f"<!-- {section} -->\n<!-- /{section} -->" for section in report._SHOWN))
    page.fill_page(docs, tmp_path / "commit-results", report.show)
    assert docs.read_text().count("Median of 1") == len(report._SHOWN)


@pytest.mark.parametrize("name", NAMES)
def test_every_contestant_runs_every_question(tmp_path, name):
    source = make(tmp_path, None)
    who = committer(name)
    for question, rows in (("appends", 3 * ROWS), ("opened", 3 * ROWS), ("conflict-append", ROWS)):
        table = runs.copy(source)
        runs.QUESTIONS[question](who, table, 3)
        peer = DeltaTable(table)
        assert peer.version() == (4 if question == "conflict-append" else 3)
        if question != "conflict-append":  # there the other writers' files are missing
            assert peer.to_pyarrow_table().num_rows == START_ROWS + rows
    table = runs.copy(source)
    runs.QUESTIONS["conflict-delete"](who, table, 3)
    assert DeltaTable(table).version() == 4
    assert sum(DeltaTable(table).get_add_actions().column("num_records").to_pylist()) == START_ROWS - 1 + 3 * 1000


def test_a_failed_writer_ends_the_benchmark(tmp_path):
    source = make(tmp_path, None)
    refusing = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["ofTomorrow"]}
    (source / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"protocol": refusing}))
    command = [sys.executable, "-m", "benchmarks.commit.writers", NAMES[0], "2", str(source), "4"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "a writer ended before its last commit, with exit code 1\n" in done.stderr


def test_batches_have_distinct_rows():
    assert batch(1)["id"].to_pylist()[0] == batch(0)["id"].to_pylist()[-1] + 1
    assert batch(7).equals(batch(7))


def test_generated_commits_are_valid(tmp_path):
    table = runs.copy(make(tmp_path, 100))
    write_others(table, 1, 3)
    assert DeltaTable(table).version() == 3
    assert len(DeltaTable(table).file_uris()) == 4
    assert len(DeltaTable(table).file_uris(file_pruning_predicate="id = 5")) == 1


def test_every_section_has_its_place_on_the_page():
    text = (page.DOCS / "commit-benchmarks.md").read_text()
    for section in report._SHOWN:
        assert page.fill(text, section, "x").count("\nx\n") == 1


def test_writers_that_do_not_divide_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--writers", "5", "--commits", "12"])
    assert "expected a multiple" in capsys.readouterr().err
