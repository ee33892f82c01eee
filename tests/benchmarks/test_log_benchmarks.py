"""The smallest forms of the log benchmarks run, compare the results, and print their measurements."""

import json

import pytest
from deltalake import DeltaTable

from benchmarks.log import contest, page, plot, report, scan, tables
from benchmarks.log.__main__ import main
from benchmarks.log.runs import digest, names
from lakehouse_lib import DeltaTable as OurTable

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "shape", [tables.Shape(1000), tables.Shape(1000, parsed=False), tables.Shape(1000, partitioned=True)]
)
def test_a_table_without_data_is_a_delta_table(shape, tmp_path):
    table = tables.make(tmp_path, shape)
    assert tables.Shape.of(table.name) == shape
    peer = DeltaTable(table)
    assert peer.version() == tables.CHECKPOINT + tables.COMMITS
    assert len(peer.file_uris()) == shape.live
    assert digest(peer.file_uris()) == digest(OurTable(table).file_uris())
    for share in (0.2, 0.5):
        condition = tables.point(shape, share)
        [chosen] = peer.file_uris(file_pruning_predicate=condition)
        assert names([chosen]) == names(OurTable(table).files(condition)["path"].to_pylist())
    assert OurTable(table).files()["partitionValues"].null_count == 0  # every map may be empty in a checkpoint
    parsed = peer.get_add_actions(flatten=True)
    assert "min.id" in parsed.schema.names


def test_parts_are_cut_at_a_million(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "_PART", 400)
    monkeypatch.setattr(tables, "_ROW_GROUP", 150)
    monkeypatch.setattr(tables, "_BATCH", 100)
    table = tables.make(tmp_path, tables.Shape(1000))
    parts = [path.name for path in (table / "_delta_log").iterdir() if ".checkpoint." in path.name]
    assert sorted(name.split(".")[2:4] for name in parts) == [[f"{n:010d}", f"{3:010d}"] for n in (1, 2, 3)]
    assert len(DeltaTable(table).file_uris()) == 1050


def test_opening_is_measured_and_written(tmp_path, capsys):
    arguments = ["--rounds", "1", "--files", "1000", "--sizes", "100", "1000", "--commit-files", "100"]
    arguments += ["--home", str(tmp_path)]
    assert main([*arguments, "--only", "open", "commits", "refresh", "partitions", "growth"]) == 0
    shown = capsys.readouterr().out
    for text in (
        "open + file_uris(), cold",
        "open 10 commits + file_uris(), cold",
        "peak MB",
        "delta-rs / ours",
        "one new commit",
        "key = x",
        "| 1,000 |",
        "In a warm run",
    ):
        assert text in shown
    docs = tmp_path / "docs"
    docs.mkdir()
    sections = ("open", "commits", "refresh", "partitions", "growth")
    (docs / "benchmarks.md").write_text("\n".join(f"<!-- {section} -->\n<!-- /{section} -->" for section in sections))
    page.write(tmp_path / "log-results", docs)
    written = (docs / "benchmarks.md").read_text()
    assert written.count("Median of 1") == len(sections)
    page.write(tmp_path / "log-results", docs)
    assert (docs / "benchmarks.md").read_text() == written
    assert (docs / page.PLOT).read_text().count("<polyline") == 5


def test_scans_are_measured_beside_plain_spark(spark, tmp_path):
    table = scan.make(tmp_path, 8)
    assert scan.make(tmp_path, 8) == table
    result = scan.measure(spark, table, 8, 1)
    assert all(len(question["ours"]) == len(question["cpu"]["plain"]) == 1 for question in result["questions"])
    shown = report.show("scan", result)
    assert "8 files, 16,000 rows" in shown
    assert "Plain Parquet lists the folder each time" in shown
    assert shown.count("- processor seconds") == len(result["questions"])


def test_different_sums_are_refused_except_for_rounding():
    assert scan._same([0.1 + 0.2, 3], [0.3, 3])
    assert not scan._same([0.3, 3], [0.3, 4])
    assert not scan._same([0.3, 3], [0.3001, 3])


def test_different_answers_are_refused(tmp_path, monkeypatch):
    table = tables.make(tmp_path, tables.Shape(100))
    question = contest.Question("uris", "open")

    def answer(measured, name, *_):
        measured.add({"seconds": 1, "peak_mb": 1, "count": 1, "digest": name}, 1)

    monkeypatch.setattr(contest, "_ask", answer)
    with pytest.raises(SystemExit, match="the answers differ"):
        contest.contest(table, [question], ["ours", "delta-rs"], 1)


def test_a_failed_contestant_is_reported(tmp_path):
    table = tables.make(tmp_path, tables.Shape(100))
    results = contest.contest(table, [contest.Question("prune", "", ("no_such = 1",))], ["ours"], 2)
    assert results["prune"]["ours"].missing.startswith("failed (exit code 1")
    assert "no_such" in (tmp_path / "ours.log").read_text()


def test_every_section_has_its_place_on_the_page():
    text = (page.DOCS / "benchmarks.md").read_text()
    for section in report._SHOWN:
        assert page.fill(text, section, "x").count("\nx\n") == 1
    with pytest.raises(ValueError, match="no marks <!-- elsewhere -->"):
        page.fill(text, "elsewhere", "x")


def test_a_plot_contains_the_measurements():
    question = {"contestants": {"ours": {"cold": [0.5]}, "delta-rs": {"cold": []}}}
    drawn = plot.growth({"1000": {"questions": dict.fromkeys(("uris", "files", "prune"), question)}})
    assert drawn.count("<polyline") == 3
    assert "delta-rs" not in drawn


def test_too_few_files_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--files", "10"])
    assert "expected at least 100" in capsys.readouterr().err


def test_results_are_plain_values(tmp_path):
    assert main(["--rounds", "1", "--files", "100", "--home", str(tmp_path), "--only", "refresh"]) == 0
    record = json.loads((tmp_path / "log-results" / "refresh.json").read_text())
    assert record["rounds"] == 1
    assert record["result"]["files"] == 150
