"""The smallest form of the checkpoint benchmark runs, compares the results, and prints its measurements."""

import json

import pytest

from benchmarks.checkpoints import histories
from benchmarks.checkpoints.__main__ import main, show
from benchmarks.log import page

pytestmark = pytest.mark.slow


def test_checkpoints_are_measured_and_written(tmp_path, capsys):
    assert main(["--rounds", "1", "--files", "1000", "--home", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for text in (*histories.TITLES.values(), "1,000 files", "peak MB", "delta-rs / ours, synced"):
        assert text in shown
    results = tmp_path / "checkpoint-results"
    by_history = json.loads((results / "checkpoints.json").read_text())["result"]["histories"]
    counts = {
        name: {who: measurement["count"] for who, measurement in contestants.items()}
        for name, contestants in by_history.items()
    }
    assert {name: set(numbers.values()) for name, numbers in counts.items()} == {
        "classic": {1050},
        "full": {1050},
        "appended": {1060},
        "together": {1040},
        "scattered": {1040},
    }
    assert not any(
        measurement["missing"] for contestants in by_history.values() for measurement in contestants.values()
    )
    doc = tmp_path / "large-tables.md"
    doc.write_text("<!-- checkpoints -->\n<!-- /checkpoints -->")
    page.fill_page(doc, results, show)
    assert "by the V2 spec, the first one" in doc.read_text()
