"""The benchmark of vacuum runs at a small size, and checks what is deleted."""

import pytest

from benchmarks.maintenance.vacuum import main


@pytest.mark.slow
def test_vacuums_are_measured_and_checked(tmp_path, capfd):
    assert main(["--objects", "1000", "--rounds", "1", "--home", str(tmp_path)]) == 0
    lines = [line.split("|") for line in capfd.readouterr().out.splitlines() if line.startswith("| ")]
    deleted = {line[1].strip(): line[4].strip() for line in lines[1:]}
    assert deleted == {"ours full": "300", "delta-rs full": "300", "ours lite": "100", "delta-rs lite": "100"}
