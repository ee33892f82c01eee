"""Ctrl-C at any moment of a write: standard error has only the program's own output, and the table is intact."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakehouse_lib import DeltaTable

pytestmark = pytest.mark.slow  # a writer runs for seconds before it is interrupted

_WRITER = """
import sys
import numpy as np, pyarrow as pa
from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.parquet import writer

writer._ROW_GROUP_ROWS = 2_000
uri = sys.argv[1]
rows = pa.table({"p": np.arange(20_000) % 3, "x": np.random.default_rng(0).random(20_000)})
late = rows.set_column(1, "x", pa.array([*[0.5] * 19_999, float("nan")]))
write_deltalake(uri, rows, mode="append", partition_by=["p"])
while True:
    try:
        print("ready", flush=True)
        for number in range(1_000):
            write_deltalake(uri, late if number % 2 else rows, mode="append")
            if number % 5 == 4:
                DeltaTable(uri).optimize.compact()
    except KeyboardInterrupt:
        pass
"""


@pytest.mark.parametrize("seed", range(2))
def test_an_interrupt_prints_nothing(tmp_path: Path, seed: int) -> None:
    moments = random.Random(seed)
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path / "t")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert writer.stdout is not None
    try:
        for _ in range(25):
            assert writer.stdout.readline() == "ready\n"
            time.sleep(moments.uniform(0, 0.15))
            writer.send_signal(signal.SIGINT)
        assert writer.stdout.readline() == "ready\n"
    finally:
        writer.kill()
        _, errors = writer.communicate()
    assert errors == ""
    table = DeltaTable(tmp_path / "t")
    assert table.count() % 20_000 == 0
    assert table.to_pyarrow_table().num_rows == table.count()
