"""The benchmark of vacuum runs at a small size, and checks what is deleted."""

import pytest

from benchmarks.maintenance.vacuum import main
from tests.s3 import server


def measured(out: str) -> dict[str, list[str]]:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("| ")]
    return {line[0]: line[1:] for line in lines[1:]}


@pytest.mark.slow
def test_vacuums_are_measured_and_checked(tmp_path, capfd):
    assert main(["--objects", "1000", "--rounds", "1", "--home", str(tmp_path)]) == 0
    rows = measured(capfd.readouterr().out)
    deleted = {kind: row[2] for kind, row in rows.items()}
    assert deleted == {"ours full": "300", "delta-rs full": "300", "ours lite": "100", "delta-rs lite": "100"}
    assert rows["ours lite"][3] == "0"


def test_an_s3_server_is_required(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(server, "is_installed", lambda: False)
    with pytest.raises(SystemExit):
        main(["--s3", "--objects", "1000", "--home", str(tmp_path)])
    assert "make .peers/bin/versitygw" in capsys.readouterr().err
