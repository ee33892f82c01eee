"""The benchmark of health runs at a small size, and checks the numbers."""

import re

import pytest

from benchmarks.maintenance.health import main


@pytest.mark.slow
def test_the_health_of_many_files_is_measured_and_checked(tmp_path, capfd):
    assert main(["--files", "1000", "--rounds", "1", "--home", str(tmp_path)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["log-1000-files", "log-1000-partitions"]
    assert all(re.search(r"open [\d.]+ s, health [\d.]+ s, \d+ MB$", line) for line in lines)
