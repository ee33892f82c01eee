"""The benchmark of incremental clustering runs at a small size, and checks the rows."""

import pytest

from benchmarks.maintenance.clustering import main


@pytest.mark.slow
def test_rounds_of_new_rows_are_measured_and_checked(tmp_path, capsys):
    assert main(["--rows", "20000", "--files", "20", "--rounds", "3", "--home", str(tmp_path)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [line.split("|")[1].strip() for line in lines] == ["round", "1", "2", "3", "full"]
    assert not list(tmp_path.iterdir())
