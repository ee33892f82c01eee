"""Generate TPC-H data as CSV files in a landing folder for each source."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from demo.errors import DemoError

SCALE = 0.1
# The big tables have many files, so that there are small files to compact; the small table has some, for a history.
LANDING_FILES: Mapping[str, int] = {"orders": 24, "lineitem": 24, "customer": 6}


def generate(folder: Path, scale: float = SCALE) -> None:
    """Write `orders.csv`, `lineitem.csv` and `customer.csv`, each with a header; the same scale gives the same bytes.

    Raises:
        DemoError: the generator is missing or failed.
    """
    program = Path(sys.executable).parent / "tpchgen-cli"
    tables = ",".join(LANDING_FILES)
    command = [str(program), "csv", "-s", str(scale), "--tables", tables, "--overwrite", "--output-dir", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise DemoError(f"{program} does not start: {error}", hint="Run `make demo`, which installs it.") from None
    if done.returncode != 0:
        raise DemoError(f"{program.name} failed: {done.stderr.strip() or done.stdout.strip()}")


def cut(raw: Path, landing: Path, files: Mapping[str, int] = LANDING_FILES) -> dict[str, list[Path]]:
    """Split each `raw/NAME.csv` into `landing/NAME/NAME-01.csv` and so on, each with a header, rows in order.

    A line is a row, because TPC-H values have no line breaks.
    """
    return {name: _cut_file(raw / f"{name}.csv", landing / name, count) for name, count in files.items()}


def _cut_file(source: Path, folder: Path, count: int) -> list[Path]:
    header, *rows = source.read_bytes().splitlines(keepends=True)
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for number in range(count):
        part = folder / f"{source.stem}-{number + 1:02d}.csv"
        part.write_bytes(header + b"".join(rows[number * len(rows) // count : (number + 1) * len(rows) // count]))
        parts.append(part)
    return parts
