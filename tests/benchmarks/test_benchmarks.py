"""The smallest form of the benchmark runs, checks the results that it timed, and notices a wrong result."""

import shutil

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from benchmarks import checks, data
from benchmarks.__main__ import main
from benchmarks.cases import CASES, chosen
from benchmarks.memory import Peak
from benchmarks.opened_files import OpenedFiles

pytestmark = pytest.mark.slow


def test_a_small_benchmark_runs_and_reports(tmp_path, capsys, monkeypatch):
    options = ["--rows", "2000", "--rounds", "1", "--contestants", "arrow", "delta-rs", "--home", str(tmp_path)]
    assert main([*options, "--cases", *CASES]) == 0
    report = capsys.readouterr().out
    for title in (
        "Compact 200 files",
        "Z_order 200 files by customer and item",
        "Delete one customer",
        "Update one",
        "Merge 200",
        "10 of 200 files have rows that change",
    ):
        assert title in report
    assert report.count("\n| delta-rs ") == report.count("\n| arrow ") == len(CASES)
    assert "- arrow: a point predicate skips these shares of the files: customer" in report
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
        "orders-2000-big",
        "orders-2000-clustered",
        "orders-2000-marked",
        "orders-2000-small",
        "verb-results",
    ]
    monkeypatch.setattr("benchmarks.log.page.DOCS", tmp_path)
    (tmp_path / "benchmarks.md").write_text("\n".join(f"<!-- {name} -->\n<!-- /{name} -->" for name in CASES))
    assert main([*options, "--write-only"]) == 0
    assert (tmp_path / "benchmarks.md").read_text().count("Median of 1") == len(CASES)


def test_only_the_files_with_keys_are_opened(tmp_path, capsys):
    options = ["--rows", "2000", "--rounds", "1", "--contestants", "arrow", "--home", str(tmp_path)]
    assert main([*options, "--cases", "clustered-merge-few-keys"]) == 0
    *_, line = (line for line in capsys.readouterr().out.splitlines() if line.startswith("| arrow "))
    assert line.split("|")[6].strip() == "10"


def test_opens_of_files_are_counted_by_name(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    with OpenedFiles(tmp_path, ["a", "b"]) as opened:
        for name in ("b", "c", "b"):
            (tmp_path / name).read_text()
    assert opened.names == {"b"}


def test_a_memory_limit_is_noticed_once():
    calls = []
    with Peak(lambda: 3_000_000, limit=2e6, exceed=lambda: calls.append(True)) as memory:
        while not calls:
            pass
    assert memory.is_exceeded
    assert memory.megabytes == 3
    assert calls == [True]


def test_the_checksum_detects_one_changed_value(tmp_path):
    small, big, marked = (data.make(tmp_path, 400, kind) for kind in ("small", "big", "marked"))
    assert checks.content(marked) == checks.content(big)
    assert checks.content(small) == checks.content(big)
    assert len(checks.files(small)) == 200
    assert len(checks.files(big)) == 4
    copied = tmp_path / "copied"
    data.copy(big, copied)
    DeltaTable(copied).update(updates={"item": "item + 1"}, predicate="order_id = 7")
    assert checks.content(copied) != checks.content(big)
    rest = "FROM target WHERE order_id <> 7"
    assert checks.content(copied, rest) == checks.content(big, rest)
    shutil.rmtree(copied)
    assert checks.content(big) == checks.content(small)


def test_the_expected_rows_of_a_merge_are_those_of_delta_rs(tmp_path):
    table, source = data.make(tmp_path, 400, "big"), data.changes(tmp_path, 400, 40)
    expected = checks.content(table, checks.merged(source))
    merger = DeltaTable(table).merge(pq.read_table(source), "t.order_id = s.order_id", "s", "t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    assert checks.content(table) == expected
    assert expected.rows == 401


def test_cases_are_chosen_by_the_first_words_of_their_names(capsys):
    assert chosen(["delete", "merge-keys"]) == [
        "delete-copy",
        "delete-vectors",
        "merge-keys-copy",
        "merge-keys-vectors",
    ]
    with pytest.raises(SystemExit):
        main(["--cases", "mer"])
    assert "case is mer; expected compact, " in capsys.readouterr().err


def test_rows_that_do_not_divide_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--rows", "1001"])
    assert "multiple of 200" in capsys.readouterr().err
